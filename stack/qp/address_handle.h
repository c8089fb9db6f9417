// Address handle: the path of a UD packet.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "stack/base/types.h"
#include "stack/mem/memory.h"
#include "stack/qp/attributes.h"
#include "stack/qp/path.h"
#include "stack/wire/route.h"

namespace roci {

/// Owner: whoever holds the baton, but for `posted`.
struct AddressHandle {
  AddressHandle(Pd* owner, const AddressVector& vector, RouteSource& routes)
      : pd(owner), av(vector), route_source_(routes) {}

  Pd* const pd;
  const AddressVector av;
  Path path;
  std::uint8_t priority = 0;  ///< of egress

  /// Any thread: WQEs that name this handle. The last one frees a handle that was destroyed before.
  std::atomic<std::uint32_t> posted{0};
  bool is_destroyed = false;

  ~AddressHandle() {
    for (const KnownRoute& known : routes_) route_source_.release_route(known.route);
  }

  /// The route to the process of the destination that has `qpn`; only the first use of a block of QPNs makes one.
  Route* route_to(Qpn qpn) {
    constexpr std::uint32_t kBlockShift = 18;
    const std::uint32_t block = qpn.value >> kBlockShift;
    for (const KnownRoute& known : routes_)
      if (known.qpn_block == block) return known.route;
    routes_.push_back({.qpn_block = block, .route = route_source_.acquire_route(av.dgid, qpn)});
    return routes_.back().route;
  }

  /// A WQE is done with.
  void release() {
    if (posted.fetch_sub(1, std::memory_order_acq_rel) == 1 && is_destroyed) delete this;
  }

 private:
  struct KnownRoute {
    std::uint32_t qpn_block;
    Route* route;
  };
  RouteSource& route_source_;
  std::vector<KnownRoute> routes_;
};

}  // namespace roci
