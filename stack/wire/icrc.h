// The invariant CRC of RoCE v2 (IBTA 7.8.1, A17.3.3): a CRC-32 over what does not change on the way. Fields that may
// change (DSCP and ECN, TTL, flow label, checksums, BTH byte 4) count as ones, after eight bytes of ones in place of
// the InfiniBand headers that are not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace roci {

/// `l3` is the IP header; `bytes` is the length from there up to the ICRC. At least IP, UDP and BTH are there.
std::uint32_t compute_icrc(const std::byte* l3, bool is_v4, std::uint32_t bytes);

/// On the wire the ICRC's least significant byte comes first.
inline void store_icrc(std::byte* p, std::uint32_t icrc) { std::memcpy(p, &icrc, sizeof icrc); }
inline std::uint32_t load_icrc(const std::byte* p) {
  std::uint32_t icrc;
  std::memcpy(&icrc, p, sizeof icrc);
  return icrc;
}

}  // namespace roci
