// The way to one destination on the link.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/wire/address.h"

namespace roci {

/// Made and kept up to date by the port; the stack copies `l2` in front of each packet.
/// Owner: the port; read by the worker.
struct Route {
  std::array<std::byte, 18> l2{};  ///< destination, source, [802.1Q tag], EtherType: as on the wire
  std::uint8_t l2_bytes = 14;      ///< 14, or 18 with a tag
  bool elides_payload = false;     ///< as the port's attributes say
};

/// Where routes come from. Owner: whoever holds the worker's baton.
class RouteSource {
 public:
  /// The route to `destination`, for packets to `dest_qpn` (which tells processes of one host apart). Never null on a
  /// port that is up: a destination that is not there yet gets a route whose frames are counted and dropped.
  virtual Route* acquire_route(const IpAddress& destination, Qpn dest_qpn) = 0;
  virtual void release_route(Route* route) = 0;

 protected:
  ~RouteSource() = default;
};

}  // namespace roci
