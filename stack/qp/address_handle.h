// Address handle: the path of a UD packet.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "stack/base/types.h"
#include "stack/mem/memory.h"
#include "stack/qp/attributes.h"
#include "stack/qp/path.h"
#include "stack/wire/route.h"

namespace roci {

/// Owner: control, under the batons, but for `posted` and the routes, of which each worker has its own.
struct AddressHandle {
  /// `ports`: where the routes of each worker come from.
  AddressHandle(Pd* owner, const AddressVector& vector, std::span<RouteSource* const> ports) : pd(owner), av(vector) {
    for (RouteSource* port : ports) ways_.push_back({.source = port, .routes = {}});
  }

  Pd* const pd;
  const AddressVector av;
  Path path;
  std::uint8_t priority = 0;  ///< of egress

  /// Any thread: WQEs that name this handle. While there are any, a destroyed handle is kept.
  std::atomic<std::uint32_t> posted{0};

  ~AddressHandle() {
    for (const Ways& ways : ways_)
      for (const KnownRoute& known : ways.routes) ways.source->release_route(known.route);
  }

  /// That worker: the route to the process of the destination that has `qpn`; only the first use of a block of QPNs
  /// makes one.
  Route* route_to(Qpn qpn, std::uint32_t worker) {
    constexpr std::uint32_t kBlockShift = 18;
    const std::uint32_t block = qpn.value >> kBlockShift;
    Ways& ways = ways_[worker];
    for (const KnownRoute& known : ways.routes)
      if (known.qpn_block == block) return known.route;
    ways.routes.push_back({.qpn_block = block, .route = ways.source->acquire_route(av.dgid, qpn)});
    return ways.routes.back().route;
  }

  /// A WQE is done with.
  void release() { posted.fetch_sub(1, std::memory_order_release); }

 private:
  struct KnownRoute {
    std::uint32_t qpn_block;
    Route* route;
  };
  struct Ways {
    RouteSource* source;
    std::vector<KnownRoute> routes;
  };
  std::vector<Ways> ways_;  ///< by worker
};

}  // namespace roci
