// MAC, IP and GID values. On RoCE v2 a GID is the IP address, IPv4 as ::ffff:a.b.c.d (IBTA A17.4).
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace roci {

struct MacAddress {
  std::array<std::uint8_t, 6> bytes{};
  constexpr auto operator<=>(const MacAddress&) const = default;
};

/// An IPv6 address, or an IPv4 one in its mapped form; the 16 bytes are the GID, network order.
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  constexpr auto operator<=>(const IpAddress&) const = default;

  /// `host_order` 0xc6120001 is 198.18.0.1.
  static constexpr IpAddress v4(std::uint32_t host_order) {
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, static_cast<std::uint8_t>(host_order >> 24),
             static_cast<std::uint8_t>(host_order >> 16), static_cast<std::uint8_t>(host_order >> 8),
             static_cast<std::uint8_t>(host_order)}};
  }
  constexpr bool is_v4() const {
    for (int i = 0; i < 10; ++i)
      if (bytes[i] != 0) return false;
    return bytes[10] == 0xff && bytes[11] == 0xff;
  }
  constexpr std::uint32_t v4_host_order() const {
    return std::uint32_t{bytes[12]} << 24 | std::uint32_t{bytes[13]} << 16 | std::uint32_t{bytes[14]} << 8 | bytes[15];
  }
  constexpr bool is_multicast() const { return is_v4() ? bytes[12] >> 4 == 0xe : bytes[0] == 0xff; }
  constexpr bool is_unspecified() const { return *this == IpAddress{}; }
};

/// The Ethernet address of a multicast group (RFC 1112, section 6.4; RFC 2464, section 7).
constexpr MacAddress multicast_mac(const IpAddress& group) {
  const auto& b = group.bytes;
  if (group.is_v4()) return {{0x01, 0x00, 0x5e, static_cast<std::uint8_t>(b[13] & 0x7f), b[14], b[15]}};
  return {{0x33, 0x33, b[12], b[13], b[14], b[15]}};
}

}  // namespace roci
