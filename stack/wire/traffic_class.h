// DSCP and ECN: the traffic class of an IP header, changed in place. The ICRC takes it as ones (IBTA A17.3), so it
// stays right.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/base/bytes.h"

namespace roci {

/// The ECN field, the low two bits of the traffic class (RFC 3168).
enum class Ecn : std::uint8_t { kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3 };

constexpr Ecn ecn_of(std::uint8_t traffic_class) { return static_cast<Ecn>(traffic_class & 3); }
constexpr std::uint8_t with_ecn(std::uint8_t traffic_class, Ecn ecn) {
  return static_cast<std::uint8_t>((traffic_class & ~3) | static_cast<unsigned>(ecn));
}

/// `l3` is the first byte of an IP header, `is_v4` or not.
inline std::uint8_t traffic_class_at(const std::byte* l3, bool is_v4) {
  if (is_v4) return static_cast<std::uint8_t>(l3[1]);
  return static_cast<std::uint8_t>(load_be<std::uint16_t>(l3) >> 4);
}

/// The IPv4 checksum follows the change of the 16 bits that hold the field (RFC 1624).
inline void set_traffic_class(std::byte* l3, bool is_v4, std::uint8_t traffic_class) {
  if (!is_v4) {
    const auto word = load_be<std::uint16_t>(l3);
    return store_be<std::uint16_t>(l3, static_cast<std::uint16_t>((word & 0xf00f) | traffic_class << 4));
  }
  constexpr std::size_t kChecksumOffset = 10;
  const std::uint32_t before = load_be<std::uint16_t>(l3);
  l3[1] = std::byte{traffic_class};
  const std::uint32_t after = load_be<std::uint16_t>(l3);
  std::uint32_t sum =
      (~std::uint32_t{load_be<std::uint16_t>(l3 + kChecksumOffset)} & 0xffff) + (~before & 0xffff) + after;
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  store_be<std::uint16_t>(l3 + kChecksumOffset, static_cast<std::uint16_t>(~sum));
}

/// Congestion experienced. Only a packet that is ECN capable may be marked.
inline void mark_ce(std::byte* l3, bool is_v4) {
  set_traffic_class(l3, is_v4, with_ecn(traffic_class_at(l3, is_v4), Ecn::kCe));
}

}  // namespace roci
