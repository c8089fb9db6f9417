// The allowed rate of one flow, as the time before which it sends nothing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stack/base/types.h"

namespace roci::egress {

/// What a frame costs on the wire besides its bytes: preamble, FCS and the gap between packets (IEEE 802.3).
inline constexpr std::uint32_t kWireOverheadBytes = 24;

constexpr Duration wire_time(std::uint64_t wire_bytes, std::uint64_t rate_bps) {
  constexpr std::uint64_t kBitPicosecondsPerByte = 8'000'000'000'000;
  return {static_cast<std::int64_t>(wire_bytes * kBitPicosecondsPerByte / rate_bps)};
}

/// Owner: worker.
class Pacer {
 public:
  /// 0 is no limit. What was scheduled at the old rate moves: the gap behind the last frame is that of the new rate.
  void set_rate(std::uint64_t rate_bps) {
    rate_bps_ = rate_bps;
    next_ = rate_bps == 0 ? Instant{} : last_ + wire_time(last_wire_bytes_, rate_bps);
  }
  std::uint64_t rate_bps() const { return rate_bps_; }
  bool limited() const { return rate_bps_ != 0; }

  /// When the next frame may leave; the origin if there is no limit.
  Instant next() const { return next_; }

  /// A frame leaves `now`. `catch_up`: by how much the frame may have been late without losing its place.
  void on_sent(Instant now, std::uint32_t wire_bytes, Duration catch_up) {
    last_ = limited() ? std::max(next_, now - catch_up) : now;
    last_wire_bytes_ = wire_bytes;
    if (limited()) next_ = last_ + wire_time(wire_bytes, rate_bps_);
  }

 private:
  std::uint64_t rate_bps_ = 0;
  Instant next_{};
  Instant last_{};
  std::uint32_t last_wire_bytes_ = 0;
};

}  // namespace roci::egress
