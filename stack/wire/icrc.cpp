#include "stack/wire/icrc.h"

#include <isa-l/crc.h>

#include <cstring>

#include "stack/wire/headers.h"

namespace roci {
namespace {

constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kUdpChecksumOffset = 6;
constexpr std::size_t kBthMaskedByte = 4;
constexpr std::uint8_t kOnes = 0xff;
/// A CRC call has a fixed cost of some 15 ns, so a rest as short as this is copied behind the masked headers, to make
/// one call of two.
constexpr std::uint32_t kShortRestBytes = 128;

template <std::size_t kL3Bytes>
std::uint32_t compute(const std::byte* l3, std::uint32_t bytes) {
  constexpr std::size_t kMaskedBytes = kL3Bytes + UdpHeader::kSize + Bth::kSize;
  alignas(16) std::uint8_t masked[kPrefixBytes + kMaskedBytes + kShortRestBytes];
  std::memset(masked, kOnes, kPrefixBytes);
  std::memcpy(masked + kPrefixBytes, l3, kMaskedBytes);
  std::uint8_t* ip = masked + kPrefixBytes;
  if constexpr (kL3Bytes == Ipv4Header::kSize) {
    ip[1] = kOnes;            // DSCP and ECN
    ip[8] = kOnes;            // TTL
    ip[10] = ip[11] = kOnes;  // header checksum
  } else {
    ip[0] |= 0x0f;                  // traffic class
    ip[1] = ip[2] = ip[3] = kOnes;  // traffic class and flow label
    ip[7] = kOnes;                  // hop limit
  }
  std::uint8_t* udp = ip + kL3Bytes;
  udp[kUdpChecksumOffset] = udp[kUdpChecksumOffset + 1] = kOnes;
  udp[UdpHeader::kSize + kBthMaskedByte] = kOnes;
  constexpr std::size_t kHeadBytes = kPrefixBytes + kMaskedBytes;
  const std::byte* rest = l3 + kMaskedBytes;
  const auto rest_bytes = static_cast<std::uint32_t>(bytes - kMaskedBytes);
  if (rest_bytes <= kShortRestBytes) {
    std::memcpy(masked + kHeadBytes, rest, rest_bytes);
    return crc32_gzip_refl(0, masked, kHeadBytes + rest_bytes);
  }
  const std::uint32_t crc = crc32_gzip_refl(0, masked, kHeadBytes);
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(rest), rest_bytes);
}

}  // namespace

std::uint32_t compute_icrc(const std::byte* l3, bool is_v4, std::uint32_t bytes) {
  return is_v4 ? compute<Ipv4Header::kSize>(l3, bytes) : compute<Ipv6Header::kSize>(l3, bytes);
}

}  // namespace roci
