// How much a lossless class may still get after it has told its peer to stop.
#pragma once

#include <cstdint>

#include "stack/base/types.h"
#include "stack/egress/pause.h"

namespace roci::fabric {

struct HeadroomInputs {
  std::uint64_t rate_bps = 0;
  Duration propagation{};            ///< one way
  std::uint32_t max_wire_bytes = 0;  ///< of the longest frame, preamble, FCS and gap included
  Duration response{};               ///< from the PFC frame's last bit to the peer's last frame begun
  Duration phy_latency{};            ///< of PHY and MAC, both ends together
};

/// Bytes that a port at `rate_bps` moves in `time`, rounded up.
constexpr std::uint64_t bytes_in(Duration time, std::uint64_t rate_bps) {
  __extension__ using Wide = unsigned __int128;
  constexpr Wide kBitPicosecondsPerByte = 8'000'000'000'000;
  const Wide bits = static_cast<Wide>(time.ps) * rate_bps;
  return static_cast<std::uint64_t>((bits + kBitPicosecondsPerByte - 1) / kBitPicosecondsPerByte);
}

/// What can arrive after the frame that calls for the pause: the link's both ways full, the frame that our own port has
/// begun and that the PFC frame waits for, the PFC frame, the peer's response, and the frame that it has begun.
constexpr std::uint64_t headroom_bytes(const HeadroomInputs& in) {
  constexpr std::uint64_t kPfcWireBytes = 84;
  return 2 * bytes_in(in.propagation, in.rate_bps) + in.max_wire_bytes + kPfcWireBytes +
         bytes_in(in.response, in.rate_bps) + in.max_wire_bytes + bytes_in(in.phy_latency, in.rate_bps);
}

/// How long a port may take to stop a class (IEEE 802.3 annex 31D, in pause quanta by speed).
constexpr Duration max_response(std::uint64_t rate_bps) {
  constexpr std::uint64_t kGbps = 1'000'000'000;
  const std::int64_t quanta = rate_bps <= 10 * kGbps    ? 60
                              : rate_bps <= 25 * kGbps  ? 80
                              : rate_bps <= 40 * kGbps  ? 118
                              : rate_bps <= 100 * kGbps ? 394
                                                        : 905;
  return egress::pause_quantum(rate_bps) * quanta;
}

}  // namespace roci::fabric
