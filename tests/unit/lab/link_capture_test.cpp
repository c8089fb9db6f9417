#include "tools/lab/link_capture.h"

#include <gtest/gtest.h>

namespace roci::lab {
namespace {

/// Two leaves of a host and two uplinks each, two spines.
Scenario leaf_spine() {
  Scenario scenario;
  scenario.topology.kind = fabric::TopologyKind::kLeafSpine;
  scenario.topology.hosts = 2;
  scenario.hosts.resize(2);
  return scenario;
}

TEST(LinkCapture, parse_capture_end__hosts_and_ports_of_switches) {
  const auto host = parse_capture_end("host1", leaf_spine());
  EXPECT_EQ(host.wrong, "");
  EXPECT_TRUE(host.value.is_host);
  EXPECT_EQ(host.value.node, 1u);
  const auto port = parse_capture_end("switch3:1", leaf_spine());
  EXPECT_EQ(port.wrong, "");
  EXPECT_FALSE(port.value.is_host);
  EXPECT_EQ(port.value.node, 3u);
  EXPECT_EQ(port.value.port, 1u);
}

TEST(LinkCapture, parse_capture_end__what_is_not_there) {
  EXPECT_EQ(parse_capture_end("host2", leaf_spine()).wrong, "\"host2\" is none of host0 to host1");
  EXPECT_EQ(parse_capture_end("host", leaf_spine()).wrong, "\"host\" is none of host0 to host1");
  EXPECT_EQ(parse_capture_end("switch4:0", leaf_spine()).wrong, "\"switch4:0\" is none of switch0 to switch3");
  EXPECT_EQ(parse_capture_end("switch0:3", leaf_spine()).wrong, "\"switch0:3\" is none of the ports 0 to 2 of switch0");
  EXPECT_EQ(parse_capture_end("switch0", leaf_spine()).wrong, "\"switch0\" is not a link, as in host3 or switch0:2");
  EXPECT_EQ(parse_capture_end("spine1:0", leaf_spine()).wrong, "\"spine1:0\" is not a link, as in host3 or switch0:2");
}

}  // namespace
}  // namespace roci::lab
