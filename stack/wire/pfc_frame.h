// Whole PFC frames (IEEE 802.3 annex 31D).
#pragma once

#include <cstddef>
#include <cstring>

#include "stack/wire/headers_l3.h"

namespace roci {

/// Without FCS.
inline constexpr std::size_t kPfcFrameBytes = 60;
/// Never forwarded by a bridge.
inline constexpr MacAddress kPfcDestination{{0x01, 0x80, 0xc2, 0x00, 0x00, 0x01}};

/// Writes kPfcFrameBytes. `source`: the sending port's own address.
inline void write_pfc_frame(std::byte* frame, const MacAddress& source, const PfcFrame& pfc) {
  std::memset(frame, 0, kPfcFrameBytes);
  EthernetHeader{.destination = kPfcDestination, .source = source, .ether_type = kEtherTypeMacControl}.write(frame);
  pfc.write(frame + EthernetHeader::kSize);
}

}  // namespace roci
