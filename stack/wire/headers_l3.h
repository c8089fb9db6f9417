// The headers below the BTH: Ethernet, 802.1Q, IPv4, IPv6, UDP, and PFC frames. See headers.h for the contract.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stack/base/bytes.h"
#include "stack/wire/address.h"

namespace roci {

inline constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherTypeArp = 0x0806;
inline constexpr std::uint16_t kEtherTypeVlan = 0x8100;
inline constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;
inline constexpr std::uint16_t kEtherTypeMacControl = 0x8808;
inline constexpr std::uint16_t kEtherTypeRoceV1 = 0x8915;
inline constexpr std::uint8_t kIpProtocolUdp = 17;
/// Destination port of RoCE v2 (IBTA A17.3).
inline constexpr std::uint16_t kRoceUdpPort = 4791;

struct EthernetHeader {
  static constexpr std::size_t kSize = 14;

  MacAddress destination;
  MacAddress source;
  std::uint16_t ether_type = 0;

  static EthernetHeader read(const std::byte* p) {
    EthernetHeader value;
    std::memcpy(value.destination.bytes.data(), p, 6);
    std::memcpy(value.source.bytes.data(), p + 6, 6);
    value.ether_type = load_be<std::uint16_t>(p + 12);
    return value;
  }
  void write(std::byte* p) const {
    std::memcpy(p, destination.bytes.data(), 6);
    std::memcpy(p + 6, source.bytes.data(), 6);
    store_be<std::uint16_t>(p + 12, ether_type);
  }
  bool operator==(const EthernetHeader&) const = default;
};

/// What an 802.1Q tag adds after the EtherType 0x8100: the tag control information and the inner EtherType.
struct VlanTag {
  static constexpr std::size_t kSize = 4;

  std::uint16_t tci = 0;  ///< PCP 3 bits, DEI, VID 12 bits
  std::uint16_t ether_type = 0;

  std::uint8_t pcp() const { return static_cast<std::uint8_t>(tci >> 13); }
  std::uint16_t vid() const { return tci & 0xfff; }

  static VlanTag read(const std::byte* p) { return {load_be<std::uint16_t>(p), load_be<std::uint16_t>(p + 2)}; }
  void write(std::byte* p) const {
    store_be<std::uint16_t>(p, tci);
    store_be<std::uint16_t>(p + 2, ether_type);
  }
  bool operator==(const VlanTag&) const = default;
};

/// IPv4 without options (RFC 791).
struct Ipv4Header {
  static constexpr std::size_t kSize = 20;

  std::uint8_t version_ihl = 0x45;
  std::uint8_t traffic_class = 0;  ///< DSCP 6 bits, ECN 2 bits
  std::uint16_t total_bytes = 0;
  std::uint16_t identification = 0;
  std::uint16_t flags_fragment = 0;  ///< flags 3 bits, fragment offset 13 bits
  std::uint8_t ttl = 0;
  std::uint8_t protocol = 0;
  std::uint16_t checksum = 0;
  std::uint32_t source = 0;
  std::uint32_t destination = 0;

  static constexpr std::uint16_t kDontFragment = 0x4000;
  static constexpr std::uint16_t kFragmentMask = 0x3fff;  ///< more-fragments flag and offset

  static Ipv4Header read(const std::byte* p) {
    return {.version_ihl = std::to_integer<std::uint8_t>(p[0]),
            .traffic_class = std::to_integer<std::uint8_t>(p[1]),
            .total_bytes = load_be<std::uint16_t>(p + 2),
            .identification = load_be<std::uint16_t>(p + 4),
            .flags_fragment = load_be<std::uint16_t>(p + 6),
            .ttl = std::to_integer<std::uint8_t>(p[8]),
            .protocol = std::to_integer<std::uint8_t>(p[9]),
            .checksum = load_be<std::uint16_t>(p + 10),
            .source = load_be<std::uint32_t>(p + 12),
            .destination = load_be<std::uint32_t>(p + 16)};
  }
  void write(std::byte* p) const {
    p[0] = std::byte{version_ihl};
    p[1] = std::byte{traffic_class};
    store_be<std::uint16_t>(p + 2, total_bytes);
    store_be<std::uint16_t>(p + 4, identification);
    store_be<std::uint16_t>(p + 6, flags_fragment);
    p[8] = std::byte{ttl};
    p[9] = std::byte{protocol};
    store_be<std::uint16_t>(p + 10, checksum);
    store_be<std::uint32_t>(p + 12, source);
    store_be<std::uint32_t>(p + 16, destination);
  }
  bool operator==(const Ipv4Header&) const = default;
};

/// One's complement sum of a 20-byte IPv4 header, folded to 16 bits: 0xffff if the checksum in it is right; with the
/// checksum field zero, the complement of the checksum (RFC 1071).
inline std::uint16_t ipv4_header_sum(const std::byte* p) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < Ipv4Header::kSize; i += 2) sum += load_be<std::uint16_t>(p + i);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>((sum & 0xffff) + (sum >> 16));
}

/// IPv6 (RFC 8200).
struct Ipv6Header {
  static constexpr std::size_t kSize = 40;

  std::uint8_t version = 6;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;  ///< 20 bits
  std::uint16_t payload_bytes = 0;
  std::uint8_t next_header = 0;
  std::uint8_t hop_limit = 0;
  IpAddress source;
  IpAddress destination;

  static Ipv6Header read(const std::byte* p) {
    const auto word = load_be<std::uint32_t>(p);
    Ipv6Header value{.version = static_cast<std::uint8_t>(word >> 28),
                     .traffic_class = static_cast<std::uint8_t>(word >> 20),
                     .flow_label = word & 0xf'ffff,
                     .payload_bytes = load_be<std::uint16_t>(p + 4),
                     .next_header = std::to_integer<std::uint8_t>(p[6]),
                     .hop_limit = std::to_integer<std::uint8_t>(p[7]),
                     .source = {},
                     .destination = {}};
    std::memcpy(value.source.bytes.data(), p + 8, 16);
    std::memcpy(value.destination.bytes.data(), p + 24, 16);
    return value;
  }
  void write(std::byte* p) const {
    store_be<std::uint32_t>(p, std::uint32_t{version} << 28 | std::uint32_t{traffic_class} << 20 | flow_label);
    store_be<std::uint16_t>(p + 4, payload_bytes);
    p[6] = std::byte{next_header};
    p[7] = std::byte{hop_limit};
    std::memcpy(p + 8, source.bytes.data(), 16);
    std::memcpy(p + 24, destination.bytes.data(), 16);
  }
  bool operator==(const Ipv6Header&) const = default;
};

/// UDP (RFC 768). RoCE v2 sends the checksum as 0, over IPv6 too (IBTA A17.3.1).
struct UdpHeader {
  static constexpr std::size_t kSize = 8;

  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint16_t bytes = 0;  ///< header included
  std::uint16_t checksum = 0;

  static UdpHeader read(const std::byte* p) {
    return {load_be<std::uint16_t>(p), load_be<std::uint16_t>(p + 2), load_be<std::uint16_t>(p + 4),
            load_be<std::uint16_t>(p + 6)};
  }
  void write(std::byte* p) const {
    store_be<std::uint16_t>(p, source_port);
    store_be<std::uint16_t>(p + 2, destination_port);
    store_be<std::uint16_t>(p + 4, bytes);
    store_be<std::uint16_t>(p + 6, checksum);
  }
  bool operator==(const UdpHeader&) const = default;
};

/// A priority flow control frame after its Ethernet header (IEEE 802.3 annex 31D): opcode, class-enable vector, and the
/// pause time of each class in quanta of 512 bit times. The rest of the 60-byte frame is zero.
struct PfcFrame {
  static constexpr std::size_t kSize = 20;
  static constexpr std::uint16_t kOpcode = 0x0101;

  std::uint16_t opcode = kOpcode;
  std::uint16_t class_enable = 0;  ///< bit n: time_quanta[n] counts
  std::array<std::uint16_t, 8> time_quanta{};

  static PfcFrame read(const std::byte* p) {
    PfcFrame value{.opcode = load_be<std::uint16_t>(p), .class_enable = load_be<std::uint16_t>(p + 2)};
    for (std::size_t i = 0; i < 8; ++i) value.time_quanta[i] = load_be<std::uint16_t>(p + 4 + 2 * i);
    return value;
  }
  void write(std::byte* p) const {
    store_be<std::uint16_t>(p, opcode);
    store_be<std::uint16_t>(p + 2, class_enable);
    for (std::size_t i = 0; i < 8; ++i) store_be<std::uint16_t>(p + 4 + 2 * i, time_quanta[i]);
  }
  bool operator==(const PfcFrame&) const = default;
};

}  // namespace roci
