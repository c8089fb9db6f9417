// What the link partner has told us to hold back: priority flow control as its receiver sees it (IEEE 802.1Qbb).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/egress/settings.h"

namespace roci::egress {

/// A pause quantum is 512 bit times of the port (IEEE 802.3 annex 31B).
constexpr Duration pause_quantum(std::uint64_t rate_bps) {
  constexpr std::uint64_t kQuantumBits = 512;
  return {static_cast<std::int64_t>(kQuantumBits * 1'000'000'000'000 / rate_bps)};
}

/// Owner: worker.
class PauseState {
 public:
  /// Bit n: priority n is paused at `now`.
  std::uint8_t mask(Instant now) {
    if (paused_ != 0) [[unlikely]]
      expire(now);
    return paused_;
  }

  /// A later frame overwrites what was left of an earlier one; a time of 0 ends the pause.
  void pause(unsigned priority, Duration time, Instant now) {
    expire(now);
    end(priority, now);
    if (time.ps == 0) return;
    paused_ = static_cast<std::uint8_t>(paused_ | 1u << priority);
    since_[priority] = now;
    until_[priority] = now + time;
  }

  /// The first end of a pause among the priorities of `mask`.
  Instant earliest_end(std::uint8_t mask) const {
    Instant earliest = kNever;
    for (std::uint8_t left = paused_ & mask; left != 0; left &= static_cast<std::uint8_t>(left - 1))
      earliest = std::min(earliest, until_[static_cast<unsigned>(std::countr_zero(left))]);
    return earliest;
  }

  /// Time for which `priority` has been paused so far.
  Duration total(unsigned priority, Instant now) const {
    const bool paused = (paused_ >> priority & 1) != 0;
    return total_[priority] + (paused ? std::min(now, until_[priority]) - since_[priority] : Duration{});
  }

 private:
  void expire(Instant now) {
    for (std::uint8_t left = paused_; left != 0; left &= static_cast<std::uint8_t>(left - 1)) {
      const auto priority = static_cast<unsigned>(std::countr_zero(left));
      if (until_[priority] <= now) end(priority, until_[priority]);
    }
  }
  void end(unsigned priority, Instant at) {
    if ((paused_ >> priority & 1) == 0) return;
    paused_ = static_cast<std::uint8_t>(paused_ & ~(1u << priority));
    total_[priority] = total_[priority] + (at - since_[priority]);
  }

  std::uint8_t paused_ = 0;
  std::array<Instant, kPriorities> since_{};
  std::array<Instant, kPriorities> until_{};
  std::array<Duration, kPriorities> total_{};
};

}  // namespace roci::egress
