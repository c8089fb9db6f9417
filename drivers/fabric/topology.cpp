#include "drivers/fabric/topology.h"

#include <algorithm>

#include "stack/base/assert.h"

namespace roci::fabric {
namespace {

/// Grows a topology link by link.
class Builder {
 public:
  Builder(const TopologyConfig& config, std::uint32_t switches)
      : config_(config), uplink_rate_bps_(config.uplink_rate_bps == 0 ? config.link_rate_bps : config.uplink_rate_bps) {
    topology_.switches.resize(switches);
  }

  /// The next host, at switch `at`.
  void add_host(std::uint32_t at) {
    const auto host = static_cast<std::uint32_t>(topology_.hosts.size());
    std::vector<TopologyPort>& ports = topology_.switches[at].ports;
    topology_.hosts.push_back(
        {{false, static_cast<std::uint16_t>(ports.size()), at}, config_.link_rate_bps, config_.link_delay});
    ports.push_back({{true, 0, host}, config_.link_rate_bps, config_.link_delay});
  }
  void join(std::uint32_t a, std::uint32_t b) {
    std::vector<TopologyPort>& of_a = topology_.switches[a].ports;
    std::vector<TopologyPort>& of_b = topology_.switches[b].ports;
    const LinkEnd end_a{false, static_cast<std::uint16_t>(of_a.size()), a};
    const LinkEnd end_b{false, static_cast<std::uint16_t>(of_b.size()), b};
    of_a.push_back({end_b, uplink_rate_bps_, config_.link_delay});
    of_b.push_back({end_a, uplink_rate_bps_, config_.link_delay});
  }
  Topology finish() {
    for (std::uint32_t host = 0; host < topology_.hosts.size(); ++host) route_to(host);
    return std::move(topology_);
  }

 private:
  /// Breadth first from the host's switch: a port belongs to the set if it leads one hop nearer.
  void route_to(std::uint32_t host) {
    constexpr std::uint32_t kFar = UINT32_MAX;
    const LinkEnd home = topology_.hosts[host].peer;
    std::vector<std::uint32_t> distance(topology_.switches.size(), kFar);
    std::vector<std::uint32_t> order{home.node};
    distance[home.node] = 0;
    topology_.switches[home.node].routes.set_ports(host, std::vector<std::uint16_t>{home.port});
    for (std::size_t i = 0; i < order.size(); ++i)
      for (const TopologyPort& port : topology_.switches[order[i]].ports)
        if (!port.peer.is_host && distance[port.peer.node] == kFar) {
          distance[port.peer.node] = distance[order[i]] + 1;
          order.push_back(port.peer.node);
        }
    for (const std::uint32_t at : order)
      if (at != home.node) topology_.switches[at].routes.set_ports(host, ports_towards(at, distance));
  }
  std::vector<std::uint16_t> ports_towards(std::uint32_t at, const std::vector<std::uint32_t>& distance) const {
    std::vector<std::uint16_t> nearer;
    const std::vector<TopologyPort>& ports = topology_.switches[at].ports;
    for (std::size_t i = 0; i < ports.size(); ++i)
      if (!ports[i].peer.is_host && distance[ports[i].peer.node] < distance[at])
        nearer.push_back(static_cast<std::uint16_t>(i));
    return nearer;
  }

  const TopologyConfig& config_;
  const std::uint64_t uplink_rate_bps_;
  Topology topology_;
};

/// Hosts at leaf `leaf`, as evenly as it goes, the first ones the more.
std::uint32_t share(std::uint32_t hosts, std::uint32_t leaves, std::uint32_t leaf) {
  return hosts / leaves + (leaf < hosts % leaves ? 1 : 0);
}

Topology make_star(const TopologyConfig& config) {
  Builder builder(config, 1);
  for (std::uint32_t host = 0; host < config.hosts; ++host) builder.add_host(0);
  return builder.finish();
}

Topology make_dumbbell(const TopologyConfig& config) {
  Builder builder(config, 2);
  for (std::uint32_t side = 0; side < 2; ++side)
    for (std::uint32_t i = 0; i < share(config.hosts, 2, side); ++i) builder.add_host(side);
  builder.join(0, 1);
  return builder.finish();
}

Topology make_leaf_spine(const TopologyConfig& config) {
  Builder builder(config, config.leaves + config.spines);
  for (std::uint32_t leaf = 0; leaf < config.leaves; ++leaf)
    for (std::uint32_t i = 0; i < share(config.hosts, config.leaves, leaf); ++i) builder.add_host(leaf);
  for (std::uint32_t leaf = 0; leaf < config.leaves; ++leaf)
    for (std::uint32_t spine = 0; spine < config.spines; ++spine) builder.join(leaf, config.leaves + spine);
  return builder.finish();
}

/// k pods of k/2 edge and k/2 aggregation switches, and (k/2)^2 cores; core i*k/2+j is joined to aggregation switch i
/// of each pod. Switches are numbered edges first, then aggregation, then cores.
Topology make_fat_tree(const TopologyConfig& config) {
  const std::uint32_t half = config.k / 2;
  const std::uint32_t edges = config.k * half;
  Builder builder(config, 2 * edges + half * half);
  for (std::uint32_t host = 0; host < config.hosts; ++host) builder.add_host(host / half);
  for (std::uint32_t pod = 0; pod < config.k; ++pod)
    for (std::uint32_t edge = 0; edge < half; ++edge)
      for (std::uint32_t i = 0; i < half; ++i) builder.join(pod * half + edge, edges + pod * half + i);
  for (std::uint32_t pod = 0; pod < config.k; ++pod)
    for (std::uint32_t i = 0; i < half; ++i)
      for (std::uint32_t j = 0; j < half; ++j) builder.join(edges + pod * half + i, 2 * edges + i * half + j);
  return builder.finish();
}

}  // namespace

const char* check(const TopologyConfig& config) {
  if (config.hosts < 2) return "needs at least 2 hosts";
  if (config.link_rate_bps == 0) return "needs a link_rate";
  if (config.link_delay < Duration{}) return "needs a link_delay that is not negative";
  if (config.kind == TopologyKind::kLeafSpine) {
    if (config.leaves == 0 || config.spines == 0) return "needs at least one leaf and one spine";
    if (config.hosts < config.leaves) return "needs a host for each leaf";
  }
  if (config.kind == TopologyKind::kFatTree) {
    if (config.k < 2 || config.k % 2 != 0) return "needs an even k";
    if (config.hosts > fat_tree_hosts(config.k)) return "needs a larger k: a fat tree holds k^3/4 hosts";
  }
  return nullptr;
}

Topology make_topology(const TopologyConfig& config) {
  ROCI_ASSERT(check(config) == nullptr);
  switch (config.kind) {
    case TopologyKind::kStar:
      return make_star(config);
    case TopologyKind::kDumbbell:
      return make_dumbbell(config);
    case TopologyKind::kLeafSpine:
      return make_leaf_spine(config);
    case TopologyKind::kFatTree:
      break;
  }
  return make_fat_tree(config);
}

}  // namespace roci::fabric
