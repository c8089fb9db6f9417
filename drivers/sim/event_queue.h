// Virtual time: a clock that jumps from one event to the next. Events of one instant happen in the order in which they
// were scheduled, so a run is the same each time.
#pragma once

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

/// One thread.
class EventQueue {
 public:
  Instant now() const { return now_; }
  /// `at` before now counts as now. `target` must live until the event or the queue is gone.
  void schedule(Instant at, EventTarget& target, std::uint64_t argument = 0);
  /// The same for a function: for tests and scenarios, not for frames.
  void call_at(Instant at, std::function<void()> function);

  bool empty() const { return heap_.empty(); }
  Instant next_at() const { return heap_.empty() ? kNever : heap_.front().at; }
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

  static constexpr std::size_t kArity = 4;

  static bool earlier(const Event& a, const Event& b) { return a.at != b.at ? a.at < b.at : a.order < b.order; }
  /// Takes the earliest event out; there is one.
  Event pop();

  std::vector<Event> heap_;  ///< each event before its kArity children
  Functions functions_;
  Instant now_{};
  std::uint64_t order_ = 0;
  std::uint64_t events_run_ = 0;
};

}  // namespace roci::sim
