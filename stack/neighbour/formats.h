// ARP (RFC 826), ICMP echo (RFC 792, RFC 4443) and neighbour discovery (RFC 4861), as far as a port without a kernel
// behind it speaks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "stack/base/bytes.h"
#include "stack/wire/address.h"
#include "stack/wire/headers_l3.h"

namespace roci {

inline constexpr std::uint8_t kIpProtocolIcmp = 1;
inline constexpr std::uint8_t kIpProtocolIcmpv6 = 58;
inline constexpr std::uint8_t kIcmpEchoReply = 0;
inline constexpr std::uint8_t kIcmpEchoRequest = 8;
inline constexpr std::uint8_t kIcmpv6EchoRequest = 128;
inline constexpr std::uint8_t kIcmpv6EchoReply = 129;
inline constexpr std::uint8_t kNeighbourSolicitation = 135;
inline constexpr std::uint8_t kNeighbourAdvertisement = 136;
/// Neighbour discovery is valid only with the hop limit that no router has touched (RFC 4861, 7.1).
inline constexpr std::uint8_t kNeighbourHopLimit = 255;

inline constexpr MacAddress kBroadcastMac{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

/// An ARP packet for IPv4 over Ethernet, after the Ethernet header.
struct ArpPacket {
  static constexpr std::size_t kSize = 28;
  static constexpr std::uint16_t kRequest = 1;
  static constexpr std::uint16_t kReply = 2;

  std::uint16_t operation = 0;
  MacAddress sender_mac;
  std::uint32_t sender_ip = 0;  ///< host order
  MacAddress target_mac;
  std::uint32_t target_ip = 0;

  /// False for other hardware and protocols.
  static bool read(const std::byte* p, ArpPacket* out) {
    constexpr std::uint64_t kEthernetIpv4 = 0x0001'0800'0604;
    if (load_be<std::uint64_t>(p) >> 16 != kEthernetIpv4) return false;
    out->operation = load_be<std::uint16_t>(p + 6);
    std::memcpy(out->sender_mac.bytes.data(), p + 8, 6);
    out->sender_ip = load_be<std::uint32_t>(p + 14);
    std::memcpy(out->target_mac.bytes.data(), p + 18, 6);
    out->target_ip = load_be<std::uint32_t>(p + 24);
    return true;
  }
  void write(std::byte* p) const {
    store_be<std::uint64_t>(p, 0x0001'0800'0604'0000 | operation);
    std::memcpy(p + 8, sender_mac.bytes.data(), 6);
    store_be<std::uint32_t>(p + 14, sender_ip);
    std::memcpy(p + 18, target_mac.bytes.data(), 6);
    store_be<std::uint32_t>(p + 24, target_ip);
  }
};

/// A neighbour solicitation or advertisement with one option that holds a link-layer address: what a port sends. From
/// the ICMPv6 header on.
struct NeighbourMessage {
  static constexpr std::size_t kSize = 32;
  static constexpr std::size_t kOptionAt = 24;
  static constexpr std::uint8_t kSourceOption = 1;
  static constexpr std::uint8_t kTargetOption = 2;
  static constexpr std::uint32_t kSolicited = 0x4000'0000;
  static constexpr std::uint32_t kOverride = 0x2000'0000;

  std::uint8_t type = 0;
  std::uint32_t flags = 0;
  IpAddress target;
  MacAddress mac;  ///< of the option

  /// The checksum is left zero.
  void write(std::byte* p) const {
    store_be<std::uint32_t>(p, std::uint32_t{type} << 24);
    store_be<std::uint32_t>(p + 4, flags);
    std::memcpy(p + 8, target.bytes.data(), 16);
    p[kOptionAt] = std::byte{type == kNeighbourSolicitation ? kSourceOption : kTargetOption};
    p[kOptionAt + 1] = std::byte{1};  // of 8 bytes
    std::memcpy(p + kOptionAt + 2, mac.bytes.data(), 6);
  }
};

/// One's complement sum (RFC 1071), to be folded by internet_checksum(). All parts but the last have even lengths.
inline std::uint64_t internet_sum(std::span<const std::byte> bytes, std::uint64_t sum = 0) {
  std::size_t i = 0;
  for (; i + 1 < bytes.size(); i += 2) sum += load_be<std::uint16_t>(bytes.data() + i);
  if (i < bytes.size()) sum += std::to_integer<std::uint64_t>(bytes[i]) << 8;
  return sum;
}

inline std::uint16_t internet_checksum(std::uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

/// Of an ICMPv6 message, with the pseudo-header of its IPv6 header (RFC 8200, 8.1): 0 if the one in it is right; what
/// belongs in it if the field is zero.
inline std::uint16_t icmpv6_checksum(const std::byte* ipv6, std::span<const std::byte> message) {
  const std::uint64_t addresses = internet_sum({ipv6 + 8, 32});
  return internet_checksum(internet_sum(message, addresses + message.size() + kIpProtocolIcmpv6));
}

}  // namespace roci
