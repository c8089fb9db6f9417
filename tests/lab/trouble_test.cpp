// Everything that goes wrong in a network, together: memory must be exact and every flow must end.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "stack/base/random.h"
#include "tests/lab/scenarios.h"
#include "tools/lab/experiment.h"

namespace roci::lab {
namespace {

/// `ROCI_SEED=N` runs one seed.
std::vector<std::uint64_t> seeds() {
  if (const char* seed = std::getenv("ROCI_SEED")) return {std::stoull(seed)};
  std::vector<std::uint64_t> all(20);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

Scenario troubled(std::uint64_t seed) {
  Random random(seed, 77);
  Scenario scenario = star(9);
  scenario.seed = seed;
  scenario.until_done = true;
  scenario.duration = seconds(60);
  // So little memory that PFC has to hold the senders back time and again.
  scenario.fabric_switch.buffer.bytes = 900'000;
  scenario.fabric_switch.headroom_bytes = 40'000;
  set_cc(scenario, random.below(2) == 0 ? "dcqcn,preset=paper" : "dcqcn,preset=mlx");
  const std::uint32_t mtu_bytes = 256u << random.below(5);
  for (HostSettings& host : scenario.hosts) {
    host.timeout = 10;
    host.mtu_bytes = mtu_bytes;
    host.qps_per_flow = 1 + static_cast<std::uint32_t>(random.below(3));
  }
  Workload to_all{.kind = WorkloadKind::kAllToAll, .size_bytes = 1 + random.below(200'000)};
  scenario.workloads = {incast(8, 1 + random.below(600'000)), to_all};
  std::vector<std::uint32_t> all(scenario.hosts.size());
  std::iota(all.begin(), all.end(), 0);
  LinkFaults faults{.script = {}, .hosts = all};
  std::string error;
  EXPECT_TRUE(
      parse_fault_script("drop rate=0.5%\nreorder=3 rate=1%\nduplicate rate=1%\ncorrupt rate=0.3%\n"
                         "mark-ce rate=2%\ndelay=1us..20us rate=1%\n",
                         "faults", &faults.script, &error))
      << error;
  scenario.faults = {faults};
  return scenario;
}

TEST(Trouble, loss_reordering_damage_marks_and_pauses_together__memory_is_exact) {
  for (const std::uint64_t seed : seeds()) {
    SCOPED_TRACE("ROCI_SEED=" + std::to_string(seed));
    const Result result = run(troubled(seed));
    for (const FlowResult& flow : result.flows) {
      ASSERT_TRUE(flow.done());
      ASSERT_FALSE(flow.failed);
    }
    EXPECT_EQ(result.total.damaged_bytes, 0u);
    EXPECT_EQ(result.total.drops, 0u) << "in the switch";
    EXPECT_GT(result.total.retransmitted_packets, 0u);
    EXPECT_GT(result.total.cnps, 0u);
  }
}

TEST(Trouble, same_seed__same_result) {
  const Result first = run(troubled(5));
  const Result second = run(troubled(5));
  ASSERT_EQ(first.flows.size(), second.flows.size());
  for (std::size_t i = 0; i < first.flows.size(); ++i) EXPECT_EQ(first.flows[i].end, second.flows[i].end) << i;
  EXPECT_EQ(first.total.events, second.total.events);
  EXPECT_EQ(first.total.packet_hops, second.total.packet_hops);
  const Result other = run(troubled(6));
  EXPECT_NE(first.total.events, other.total.events);
}

}  // namespace
}  // namespace roci::lab
