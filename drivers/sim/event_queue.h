// Virtual time: a clock that jumps from one event to the next. Events of one instant happen in the order in which they
// were scheduled, so a run is the same each time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "stack/base/types.h"

namespace roci::sim {

/// Whoever something happens to.
class EventTarget {
 public:
  virtual ~EventTarget() = default;
  /// `argument` is as it was scheduled.
  virtual void on_event(Instant now, std::uint64_t argument) = 0;
};

/// A calendar: the events of the next 17 us lie in slots by time, and a slot is sorted when its time comes, while what
/// the events of the slot behind it are about is fetched. What is further off waits in a heap. One thread.
class EventQueue {
 public:
  Instant now() const { return now_; }
  /// `at` before now counts as now. `argument` is for the target; if it is an address, what is there is fetched into
  /// the cache before the event. `target` must live until the event or the queue is gone.
  void schedule(Instant at, EventTarget& target, std::uint64_t argument = 0);
  /// The same for a function: for tests and scenarios, not for frames.
  void call_at(Instant at, std::function<void()> function);

  bool empty() { return next_at() == kNever; }
  Instant next_at() { return !ready_.empty() || open_next() ? ready_.back().at : kNever; }
  std::uint64_t events_run() const { return events_run_; }
  /// Jumps to the next event and lets it happen; false if there is none.
  bool step();
  /// Lets happen what is due up to `end`, and then stands at `end`.
  void run_until(Instant end);

 private:
  struct Event {
    Instant at;
    std::uint64_t order;
    EventTarget* target;
    std::uint64_t argument;
  };
  class Functions : public EventTarget {
   public:
    std::uint64_t put(std::function<void()> function);
    void on_event(Instant now, std::uint64_t argument) override;

   private:
    std::vector<std::function<void()>> slots_;
    std::vector<std::uint64_t> free_;
  };

  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr int kTickShift = 12;  // a tick is 4.1 ns
  static constexpr std::int64_t kSlots = 4096;
  static constexpr std::size_t kWords = kSlots / 64;

  struct Node {
    Event event;
    std::uint32_t next = kNone;
  };

  static std::int64_t tick_of(Instant at) { return at.ps >> kTickShift; }
  static std::size_t slot_of(std::int64_t tick) { return static_cast<std::size_t>(tick) % kSlots; }
  static bool later(const Event& a, const Event& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }

  void insert_ready(const Event& event);
  void put_in_slot(const Event& event);
  bool open_next();
  void fetch_behind() const;
  std::int64_t next_occupied(std::int64_t after) const;

  static constexpr std::array<std::uint32_t, kSlots> filled() {
    std::array<std::uint32_t, kSlots> none{};
    none.fill(kNone);
    return none;
  }

  std::vector<Event> ready_;  ///< all up to tick_, the next one last
  std::int64_t tick_ = -1;
  std::vector<Node> nodes_;  ///< of the slots
  std::uint32_t free_node_ = kNone;
  std::array<std::uint32_t, kSlots> slots_ = filled();  ///< in each the events of a tick after tick_, in any order
  std::array<std::uint64_t, kWords> occupied_{};        ///< bit n: slot n is not empty
  std::vector<Event> far_;                              ///< beyond the slots: a heap, the next one first
  Functions functions_;
  Instant now_{};
  std::uint64_t order_ = 0;
  std::uint64_t events_run_ = 0;
};

}  // namespace roci::sim
