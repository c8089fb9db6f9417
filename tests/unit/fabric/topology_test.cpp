#include "drivers/fabric/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "drivers/fabric/classify.h"
#include "tests/unit/fabric/fabric_rig.h"

namespace roci::fabric {
namespace {

/// Links from `at` on, whichever of the equal ways is taken; 0 if some way goes wrong or round.
std::uint32_t links_to(const Topology& topology, std::uint32_t at, std::uint32_t host, std::uint32_t limit) {
  const TopologySwitch& here = topology.switches[at];
  std::uint32_t links = 0;
  if (limit == 0) return 0;
  for (const std::uint16_t port : here.routes.ports(host)) {
    const LinkEnd peer = here.ports[port].peer;
    std::uint32_t along = 0;
    if (peer.is_host)
      along = peer.node == host ? 1 : 0;
    else if (const std::uint32_t rest = links_to(topology, peer.node, host, limit - 1); rest != 0)
      along = rest + 1;
    if (along == 0 || (links != 0 && along != links)) return 0;
    links = along;
  }
  return links;
}

/// From host to host.
std::uint32_t path_links(const Topology& topology, std::uint32_t from, std::uint32_t to) {
  const std::uint32_t links = links_to(topology, topology.hosts[from].peer.node, to, 6);
  return links == 0 ? 0 : links + 1;
}

const TopologyPort& port_at(const Topology& topology, const LinkEnd& end) {
  return end.is_host ? topology.hosts[end.node] : topology.switches[end.node].ports[end.port];
}

void expect_both_ends_agree(const Topology& topology) {
  for (std::uint32_t at = 0; at < topology.switches.size(); ++at)
    for (std::uint16_t port = 0; port < topology.switches[at].ports.size(); ++port) {
      const TopologyPort& here = topology.switches[at].ports[port];
      const TopologyPort& there = port_at(topology, here.peer);
      EXPECT_EQ(there.peer, (LinkEnd{false, port, at}));
      EXPECT_EQ(there.rate_bps, here.rate_bps);
      EXPECT_EQ(there.delay, here.delay);
    }
}

/// `expected(a, b)`: links from host a to host b.
template <class Expected>
void expect_paths(const Topology& topology, Expected expected) {
  expect_both_ends_agree(topology);
  for (std::uint32_t a = 0; a < topology.hosts.size(); ++a)
    for (std::uint32_t b = 0; b < topology.hosts.size(); ++b)
      if (a != b) {
        ASSERT_EQ(path_links(topology, a, b), expected(a, b)) << a << " to " << b;
      }
}

TEST(Topology, star__two_links_between_all_hosts) {
  const Topology topology = make_topology({.kind = TopologyKind::kStar, .hosts = 17});
  ASSERT_EQ(topology.switches.size(), 1u);
  expect_paths(topology, [](std::uint32_t, std::uint32_t) { return 2u; });
}

TEST(Topology, dumbbell__three_links_across) {
  const Topology topology =
      make_topology({.kind = TopologyKind::kDumbbell, .hosts = 8, .uplink_rate_bps = 40'000'000'000});
  ASSERT_EQ(topology.switches.size(), 2u);
  expect_paths(topology, [](std::uint32_t a, std::uint32_t b) { return a / 4 == b / 4 ? 2u : 3u; });
  EXPECT_EQ(topology.switches[0].ports.back().rate_bps, 40'000'000'000u);
  EXPECT_EQ(topology.switches[0].ports.front().rate_bps, 100'000'000'000u);
}

TEST(Topology, leaf_spine__four_links_over_any_spine) {
  const Topology topology = make_topology({.kind = TopologyKind::kLeafSpine, .hosts = 32, .leaves = 4, .spines = 3});
  ASSERT_EQ(topology.switches.size(), 7u);
  expect_paths(topology, [](std::uint32_t a, std::uint32_t b) { return a / 8 == b / 8 ? 2u : 4u; });
  EXPECT_EQ(topology.switches[0].routes.ports(31).size(), 3u);
  EXPECT_EQ(topology.switches[0].routes.ports(0).size(), 1u);
  EXPECT_EQ(topology.switches[4].routes.ports(31).size(), 1u);
}

TEST(Topology, leaf_spine__hosts_that_do_not_divide_are_spread) {
  const Topology topology = make_topology({.kind = TopologyKind::kLeafSpine, .hosts = 10, .leaves = 4, .spines = 2});
  const std::uint32_t expected[] = {0, 0, 0, 1, 1, 1, 2, 2, 3, 3};
  for (std::uint32_t host = 0; host < 10; ++host) EXPECT_EQ(topology.hosts[host].peer.node, expected[host]);
}

// k pods of (k/2)^2 hosts: 2 links below one edge switch, 4 in a pod, 6 between pods over any of (k/2)^2 cores.
TEST(Topology, fat_tree__two_four_or_six_links) {
  for (const std::uint32_t k : {2u, 4u, 6u}) {
    const Topology topology = make_topology({.kind = TopologyKind::kFatTree, .hosts = fat_tree_hosts(k), .k = k});
    const std::uint32_t half = k / 2;
    EXPECT_EQ(topology.hosts.size(), k * half * half);
    ASSERT_EQ(topology.switches.size(), k * k + half * half);
    for (const TopologySwitch& each : topology.switches) EXPECT_EQ(each.ports.size(), k);
    expect_paths(topology, [half](std::uint32_t a, std::uint32_t b) {
      if (a / half == b / half) return 2u;
      return a / half / half == b / half / half ? 4u : 6u;
    });
    const auto last = static_cast<std::uint32_t>(topology.hosts.size() - 1);
    EXPECT_EQ(topology.switches[0].routes.ports(last).size(), half);
    EXPECT_EQ(topology.switches[k * half].routes.ports(last).size(), half);
  }
}

TEST(Topology, check__names_what_is_wrong) {
  EXPECT_EQ(check({}), nullptr);
  EXPECT_NE(check({.hosts = 1}), nullptr);
  EXPECT_NE(check({.link_rate_bps = 0}), nullptr);
  EXPECT_NE(check({.kind = TopologyKind::kLeafSpine, .hosts = 8, .leaves = 0}), nullptr);
  EXPECT_NE(check({.kind = TopologyKind::kFatTree, .hosts = 8, .k = 3}), nullptr);
  EXPECT_EQ(check({.kind = TopologyKind::kFatTree, .hosts = 16, .k = 4}), nullptr);
  EXPECT_NE(check({.kind = TopologyKind::kFatTree, .hosts = 17, .k = 4}), nullptr);
}

constexpr std::uint32_t kFlows = 4'096;

std::uint32_t hash_of_flow(std::uint32_t flow) {
  FramePool pool(Rig::kMaxFrame);
  Frame* frame = make_frame(
      pool,
      {.source = flow / 64, .destination = 200, .udp_source_port = static_cast<std::uint16_t>(0xc000 + flow % 64)});
  classify(*frame, egress::Trust::kDscp);
  return frame->flow_hash;
}

// 4096 flows over 4 ports: 1024 each, sigma = sqrt(4096 * 1/4 * 3/4) = 27.7; over 16 pairs: 256, sigma 15.5.
TEST(RoutingTable, choose__spreads_flows_evenly_and_anew_at_each_switch) {
  RoutingTable routes;
  routes.set_ports(5, std::vector<std::uint16_t>{10, 11, 12, 13});
  std::array<std::array<int, 4>, 4> pairs{};
  for (std::uint32_t flow = 0; flow < kFlows; ++flow) {
    const std::uint32_t hash = hash_of_flow(flow);
    const std::uint32_t first = routes.choose(5, hash, mix(1));
    EXPECT_EQ(first, routes.choose(5, hash, mix(1)));
    ++pairs[first - 10][routes.choose(5, hash, mix(2)) - 10];
  }
  for (const std::array<int, 4>& row : pairs) {
    EXPECT_NEAR(row[0] + row[1] + row[2] + row[3], 1'024, 4 * 27.7);
    for (const int count : row) EXPECT_NEAR(count, 256, 4 * 15.5);
  }
}

TEST(RoutingTable, choose__no_way_is_no_port) {
  RoutingTable routes;
  EXPECT_EQ(routes.choose(0, 1, 1), RoutingTable::kNoPort);
  routes.set_ports(3, std::vector<std::uint16_t>{7});
  EXPECT_EQ(routes.choose(2, 1, 1), RoutingTable::kNoPort);
  EXPECT_EQ(routes.choose(3, 1, 1), 7u);
  EXPECT_EQ(routes.choose(Frame::kNowhere, 1, 1), RoutingTable::kNoPort);
}

TEST(Classify, priority__is_dscp_over_8_or_the_tag) {
  FramePool pool(Rig::kMaxFrame);
  for (const bool is_v4 : {true, false}) {
    Frame* frame = make_frame(pool, {.priority = 6, .is_v4 = is_v4});
    classify(*frame, egress::Trust::kDscp);
    EXPECT_EQ(frame->kind, FrameKind::kForwarded);
    EXPECT_EQ(frame->priority, 6);
    EXPECT_EQ(frame->l3_offset, 14);
    EXPECT_EQ(frame->is_v4, is_v4);
    pool.free(frame);
  }
  Frame* tagged = make_frame(pool, {.priority = 6});
  std::memmove(tagged->bytes + 18, tagged->bytes + 14, tagged->stored_bytes - 14);
  tagged->stored_bytes += 4;
  store_be<std::uint16_t>(tagged->bytes + 12, kEtherTypeVlan);
  VlanTag{.tci = 5 << 13 | 100, .ether_type = kEtherTypeIpv4}.write(tagged->bytes + 14);
  classify(*tagged, egress::Trust::kPcp);
  EXPECT_EQ(tagged->priority, 5);
  EXPECT_EQ(tagged->l3_offset, 18);
  classify(*tagged, egress::Trust::kDscp);
  EXPECT_EQ(tagged->priority, 6);
}

TEST(Classify, flow_hash__depends_on_the_five_tuple_only) {
  FramePool pool(Rig::kMaxFrame);
  const auto hash = [&](const FrameSpec& spec) {
    Frame* frame = make_frame(pool, spec);
    classify(*frame, egress::Trust::kDscp);
    const std::uint32_t value = frame->flow_hash;
    pool.free(frame);
    return value;
  };
  for (const bool is_v4 : {true, false}) {
    const std::uint32_t base = hash({.source = 1, .destination = 2, .is_v4 = is_v4});
    EXPECT_EQ(base, hash({.source = 1, .destination = 2, .frame_bytes = 70, .priority = 0, .is_v4 = is_v4}));
    EXPECT_NE(base, hash({.source = 2, .destination = 1, .is_v4 = is_v4}));
    EXPECT_NE(base, hash({.source = 1, .destination = 2, .udp_source_port = 1, .is_v4 = is_v4}));
  }
}

TEST(FramePool, allocate__uses_what_was_given_back_and_two_sizes) {
  FramePool pool(Rig::kMaxFrame);
  Frame* small = pool.allocate(100);
  Frame* large = pool.allocate(1'000);
  EXPECT_EQ(small->capacity, FramePool::kSmallBytes);
  EXPECT_EQ(large->capacity, Rig::kMaxFrame);
  EXPECT_EQ(pool.in_use(), 2u);
  large->tag = 9;
  pool.free(large);
  EXPECT_EQ(pool.allocate(1'000), large);
  EXPECT_EQ(large->tag, 0u);
  const std::size_t memory = pool.memory_bytes();
  for (int i = 0; i < 10'000; ++i) pool.free(pool.allocate(i % 2 == 0 ? 60 : 4'000));
  EXPECT_EQ(pool.memory_bytes(), memory);
}

}  // namespace
}  // namespace roci::fabric
