// Which ports are joined to which, how fast and how far, and the ways from host to host.
#pragma once

#include <cstdint>
#include <vector>

#include "drivers/fabric/routing.h"
#include "stack/base/types.h"

namespace roci::fabric {

enum class TopologyKind : std::uint8_t {
  kStar,       ///< one switch
  kDumbbell,   ///< two switches, half of the hosts at each
  kLeafSpine,  ///< each leaf joined to each spine; hosts spread evenly over the leaves
  kFatTree,    ///< of k-port switches in three layers, with k^3/4 hosts (Al-Fares et al., 2008)
};

struct TopologyConfig {
  TopologyKind kind = TopologyKind::kStar;
  std::uint32_t hosts = 2;
  std::uint64_t link_rate_bps = 100'000'000'000;
  Duration link_delay = microseconds(1);
  std::uint32_t leaves = 2;
  std::uint32_t spines = 2;
  std::uint64_t uplink_rate_bps = 0;  ///< between switches; 0: as the links of hosts
  std::uint32_t k = 4;                ///< even
};

/// One end of a link. A host has port 0 only.
struct LinkEnd {
  bool is_host = true;
  std::uint16_t port = 0;
  std::uint32_t node = 0;  ///< hosts and switches are numbered apart
  bool operator==(const LinkEnd&) const = default;
};

/// A port and the link at it; the same in both directions.
struct TopologyPort {
  LinkEnd peer;
  std::uint64_t rate_bps = 0;
  Duration delay{};  ///< from the last bit sent to the last bit received
};

struct TopologySwitch {
  std::vector<TopologyPort> ports;
  RoutingTable routes;
};

struct Topology {
  std::vector<TopologyPort> hosts;
  std::vector<TopologySwitch> switches;
};

/// How many hosts a fat tree of `k` holds.
constexpr std::uint32_t fat_tree_hosts(std::uint32_t k) { return k * k * k / 4; }

/// Null, or what is wrong: a sentence without subject, for the scenario's author.
const char* check(const TopologyConfig& config);

/// `config` is right, says check(). Routes are the shortest, with all ports that lie on one. A fat tree has as many
/// hosts as config.hosts says, up to fat_tree_hosts(k).
Topology make_topology(const TopologyConfig& config);

}  // namespace roci::fabric
