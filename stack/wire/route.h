// The way to one destination on the link.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace roci {

/// Made and kept up to date by the port; the stack copies `l2` in front of each packet.
/// Owner: the port; read by the worker.
struct Route {
  std::array<std::byte, 18> l2{};  ///< destination, source, [802.1Q tag], EtherType: as on the wire
  std::uint8_t l2_bytes = 14;      ///< 14, or 18 with a tag
};

}  // namespace roci
