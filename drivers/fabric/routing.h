// Where a switch sends what: for each host the set of ports that are equally near.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "drivers/fabric/classify.h"

namespace roci::fabric {

/// Owner: one thread.
class RoutingTable {
 public:
  static constexpr std::uint32_t kNoPort = UINT32_MAX;

  /// Hosts of one set of ports share it. Before the first frame; sets of a host replace each other.
  void set_ports(std::uint32_t host, std::span<const std::uint16_t> ports);
  /// All equally near ports to `host`; empty if there is no way.
  std::span<const std::uint16_t> ports(std::uint32_t host) const {
    if (host >= set_of_host_.size()) return {};
    const Set& set = sets_[set_of_host_[host]];
    return {ports_.data() + set.first, set.count};
  }
  /// The port for a flow, the same for all its frames. `salt`, the switch's own, makes switches choose independently.
  std::uint32_t choose(std::uint32_t host, std::uint32_t flow_hash, std::uint32_t salt) const {
    const std::span<const std::uint16_t> among = ports(host);
    if (among.size() == 1) [[likely]]
      return among[0];
    if (among.empty()) return kNoPort;
    return among[(std::uint64_t{mix(flow_hash ^ salt)} * among.size()) >> 32];
  }

 private:
  struct Set {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  std::vector<std::uint16_t> ports_;
  std::vector<Set> sets_{Set{}};  // the first is empty
  std::vector<std::uint32_t> set_of_host_;
};

}  // namespace roci::fabric
