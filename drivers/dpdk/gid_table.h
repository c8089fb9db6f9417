// The GID table of a port whose addresses come and go.
#pragma once

#include <algorithm>
#include <vector>

#include "stack/wire/address.h"

namespace roci::dpdk {

/// Makes the table hold `addresses`. Clients know GIDs by their index: what stays keeps its row, what goes leaves an
/// unspecified address behind, and what comes takes the first such row or a new one.
inline void update_gids(std::vector<IpAddress>& table, const std::vector<IpAddress>& addresses) {
  for (IpAddress& gid : table)
    if (std::find(addresses.begin(), addresses.end(), gid) == addresses.end()) gid = {};
  for (const IpAddress& address : addresses) {
    if (std::find(table.begin(), table.end(), address) != table.end()) continue;
    const auto row = std::find(table.begin(), table.end(), IpAddress{});
    if (row != table.end())
      *row = address;
    else
      table.push_back(address);
  }
  while (!table.empty() && table.back().is_unspecified()) table.pop_back();
}

}  // namespace roci::dpdk
