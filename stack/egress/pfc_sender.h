// When to tell the link partner to stop: priority flow control as its sender (IEEE 802.1Qbb).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"
#include "stack/egress/pause.h"
#include "stack/wire/headers_l3.h"

namespace roci::egress {

/// Pauses all lossless priorities together while the receive side is behind: what waits is not sorted yet. Owner:
/// worker.
class PfcSender {
 public:
  /// After this long without a break it is our own side that is broken, and the fabric must not suffer for it.
  static constexpr Duration kStormGuard = milliseconds(100);
  static constexpr std::uint16_t kLongestPause = 0xffff;

  /// Bit n of `priorities`: priority n is lossless. Before the first update().
  void configure(std::uint8_t priorities, std::uint64_t rate_bps) {
    priorities_ = priorities;
    half_pause_ = {(pause_quantum(std::max<std::uint64_t>(rate_bps, 1)) * kLongestPause).ps / 2};
  }

  /// `behind`: the receive side cannot keep up now. What is to be sent, if anything: XOFF, XOFF again before the last
  /// one ends, or XON.
  std::optional<PfcFrame> update(bool behind, Instant now) {
    if (!behind) {
      guarded_ = false;
      if (since_ == kNever) return std::nullopt;
      since_ = kNever;
      return frame(0);
    }
    if (guarded_) return std::nullopt;
    if (since_ == kNever) {
      since_ = now;
    } else if (now - since_ >= kStormGuard) {
      guarded_ = true;
      since_ = kNever;
      return frame(0);
    } else if (now < refresh_at_) {
      return std::nullopt;
    }
    refresh_at_ = now + half_pause_;
    return frame(kLongestPause);
  }
  /// The storm guard holds: nothing is sent until the receive side has caught up.
  bool guarded() const { return guarded_; }

 private:
  PfcFrame frame(std::uint16_t time_quanta) const {
    PfcFrame pfc{.class_enable = priorities_};
    for (unsigned n = 0; n < kPriorities; ++n)
      if ((priorities_ >> n & 1) != 0) pfc.time_quanta[n] = time_quanta;
    return pfc;
  }

  std::uint8_t priorities_ = 0;
  Duration half_pause_{};
  Instant since_ = kNever;
  Instant refresh_at_{};
  bool guarded_ = false;
};

}  // namespace roci::egress
