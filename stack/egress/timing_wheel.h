// Flows that wait for their time: put in and taken out in constant time (Varghese and Lauck, 1987).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/egress/flow.h"

namespace roci::egress {

/// A slot is 131 ns wide and the wheel goes round in 134 us; a flow that waits longer is looked at once a round.
/// Owner: worker.
class TimingWheel {
 public:
  bool empty() const { return size_ == 0; }

  void insert(Flow& flow, Instant at, Instant now) {
    if (empty()) cursor_ = tick_of(now);
    flow.send_at = at;
    place(flow);
    ++size_;
  }

  void remove(Flow& flow) {
    const std::size_t slot = slot_of(flow);
    slots_[slot].remove(flow);
    if (slots_[slot].empty()) occupied_[slot / 64] &= ~(1ull << slot % 64);
    --size_;
  }

  /// When expire() is to be called: the earliest time of all flows, or before that to move one that is far off.
  Instant earliest() const {
    if (empty()) return kNever;
    const std::int64_t tick = next_occupied(cursor_);
    const Instant slot_end{(tick + 1) << kTickShift};
    Instant at = slot_end;
    for (const Flow* flow = slots_[slot_at(tick)].front(); flow != nullptr; flow = flow->next)
      at = std::min(at, flow->send_at);
    return at;
  }

  /// Calls `due(flow)` for each flow whose time has come; it is out of the wheel by then.
  template <class Due>
  void expire(Instant now, Due due) {
    if (empty()) return;
    const std::int64_t from = cursor_;
    const std::int64_t to = std::min(tick_of(now), from + kSlots - 1);
    cursor_ = std::max(cursor_, tick_of(now));
    for (std::int64_t tick = next_occupied(from); tick <= to && !empty(); tick = next_occupied(tick + 1)) {
      FlowList waiting = slots_[slot_at(tick)];
      slots_[slot_at(tick)] = {};
      occupied_[slot_at(tick) / 64] &= ~(1ull << slot_at(tick) % 64);
      while (Flow* flow = waiting.pop_front()) {
        if (flow->send_at > now) {
          place(*flow);
          continue;
        }
        --size_;
        due(*flow);
      }
    }
  }

 private:
  static constexpr int kTickShift = 17;  // picoseconds to ticks
  static constexpr std::int64_t kSlots = 1024;
  static constexpr std::size_t kWords = kSlots / 64;

  static std::int64_t tick_of(Instant at) { return at.ps >> kTickShift; }
  static std::size_t slot_at(std::int64_t tick) { return static_cast<std::size_t>(tick) % kSlots; }
  std::size_t slot_of(const Flow& flow) const { return flow.wheel_slot; }

  void place(Flow& flow) {
    const std::int64_t tick = std::clamp(tick_of(flow.send_at), cursor_, cursor_ + kSlots - 1);
    const std::size_t slot = slot_at(tick);
    flow.wheel_slot = static_cast<std::uint16_t>(slot);
    slots_[slot].push_back(flow);
    occupied_[slot / 64] |= 1ull << slot % 64;
  }

  /// The first tick from `tick` on, within a round, whose slot holds a flow; a round further if there is none.
  std::int64_t next_occupied(std::int64_t tick) const {
    const std::size_t start = slot_at(tick);
    std::size_t word = start / 64;
    std::uint64_t bits = occupied_[word] >> start % 64;
    if (bits != 0) return tick + std::countr_zero(bits);
    std::int64_t passed = 64 - static_cast<std::int64_t>(start % 64);
    for (std::size_t i = 0; i < kWords; ++i, passed += 64) {
      word = (word + 1) % kWords;
      if (occupied_[word] != 0) return tick + passed + std::countr_zero(occupied_[word]);
    }
    return tick + kSlots;
  }

  std::array<FlowList, kSlots> slots_{};
  std::array<std::uint64_t, kWords> occupied_{};
  std::int64_t cursor_ = 0;  ///< ticks before this one have passed
  std::size_t size_ = 0;
};

}  // namespace roci::egress
