#include "drivers/fabric/routing.h"

#include <algorithm>

namespace roci::fabric {

void RoutingTable::set_ports(std::uint32_t host, std::span<const std::uint16_t> ports) {
  if (host >= set_of_host_.size()) set_of_host_.resize(host + 1, 0);
  for (std::uint32_t i = 0; i < sets_.size(); ++i) {
    const std::span<const std::uint16_t> known{ports_.data() + sets_[i].first, sets_[i].count};
    if (!std::ranges::equal(known, ports)) continue;
    set_of_host_[host] = i;
    return;
  }
  set_of_host_[host] = static_cast<std::uint32_t>(sets_.size());
  sets_.push_back({static_cast<std::uint32_t>(ports_.size()), static_cast<std::uint32_t>(ports.size())});
  ports_.insert(ports_.end(), ports.begin(), ports.end());
}

}  // namespace roci::fabric
