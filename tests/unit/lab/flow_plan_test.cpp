#include "tools/lab/flow_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>

#include "tools/lab/draws.h"

namespace roci::lab {
namespace {

Scenario scenario_of(std::uint32_t hosts, const Workload& workload) {
  Scenario scenario;
  scenario.topology.hosts = hosts;
  scenario.hosts.resize(hosts);
  scenario.workloads = {workload};
  return scenario;
}

TEST(Draws, logarithm__is_that_of_the_mathematical_library_to_the_last_digits) {
  Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const double part = draw_part(random);
    ASSERT_GT(part, 0);
    ASSERT_LE(part, 1);
    ASSERT_NEAR(ln_of_part(part), std::log(part), 1e-14 * (1 + std::abs(std::log(part)))) << part;
  }
  EXPECT_EQ(ln_of_part(1), 0);
}

TEST(Draws, exponential__has_mean_1_and_variance_1) {
  Random random(2);
  constexpr int kDraws = 1'000'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double draw = draw_exponential(random);
    sum += draw;
    squares += draw * draw;
  }
  // The mean of a million has a standard deviation of 0.001; that of the squares, whose variance is 20, of 0.0045.
  EXPECT_NEAR(sum / kDraws, 1, 0.005);
  EXPECT_NEAR(squares / kDraws, 2, 0.0225);
}

TEST(FlowPlan, incast__staggered) {
  Workload workload{.kind = WorkloadKind::kIncast, .receiver = 2, .senders = {0, 1, 3}, .size_bytes = 77};
  workload.start = Instant{1000};
  workload.stagger = Duration{10};
  const std::vector<PlannedFlow> flows = plan_flows(scenario_of(4, workload));
  ASSERT_EQ(flows.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(flows[i].source, workload.senders[i]);
    EXPECT_EQ(flows[i].destination, 2u);
    EXPECT_EQ(flows[i].bytes, 77u);
    EXPECT_EQ(flows[i].start.ps, 1000 + 10 * static_cast<std::int64_t>(i));
  }
}

TEST(FlowPlan, permutation__each_sends_to_another_and_hears_from_one) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Scenario scenario = scenario_of(9, {.kind = WorkloadKind::kPermutation});
    scenario.seed = seed;
    std::set<std::uint32_t> sources;
    std::set<std::uint32_t> destinations;
    for (const PlannedFlow& flow : plan_flows(scenario)) {
      EXPECT_NE(flow.source, flow.destination) << "seed " << seed;
      sources.insert(flow.source);
      destinations.insert(flow.destination);
    }
    EXPECT_EQ(sources.size(), 9u);
    EXPECT_EQ(destinations.size(), 9u);
  }
}

TEST(FlowPlan, all_to_all__each_pair_once) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
  const std::vector<PlannedFlow> flows = plan_flows(scenario_of(6, {.kind = WorkloadKind::kAllToAll}));
  for (const PlannedFlow& flow : flows) {
    EXPECT_NE(flow.source, flow.destination);
    pairs.emplace(flow.source, flow.destination);
  }
  EXPECT_EQ(flows.size(), 30u);
  EXPECT_EQ(pairs.size(), 30u);
}

TEST(FlowPlan, allreduce_ring__each_step_waits_for_the_part_that_it_sends_on) {
  // Four hosts, 2 x 3 steps, a quarter of the vector each.
  const std::vector<PlannedFlow> flows =
      plan_flows(scenario_of(4, {.kind = WorkloadKind::kAllreduceRing, .size_bytes = 4000}));
  ASSERT_EQ(flows.size(), 24u);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    EXPECT_EQ(flows[i].bytes, 1000u);
    EXPECT_EQ(flows[i].destination, (flows[i].source + 1) % 4);
    ASSERT_EQ(flows[i].after.size(), i < 4 ? 0u : 1u);
    if (i < 4) continue;
    ASSERT_LT(flows[i].after[0], i);
    EXPECT_EQ(flows[flows[i].after[0]].destination, flows[i].source);
  }
}

TEST(FlowPlan, allreduce_tree__up_after_the_children_and_down_after_the_parent) {
  // Seven hosts: 0 over 1 and 2, 1 over 3 and 4, 2 over 5 and 6.
  const std::vector<PlannedFlow> flows =
      plan_flows(scenario_of(7, {.kind = WorkloadKind::kAllreduceTree, .size_bytes = 4000}));
  ASSERT_EQ(flows.size(), 12u);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const PlannedFlow& flow = flows[i];
    EXPECT_EQ(flow.bytes, 4000u);
    const bool up = flow.source > flow.destination;
    EXPECT_EQ(up ? (flow.source - 1) / 2 : (flow.destination - 1) / 2, up ? flow.destination : flow.source);
    const bool of_leaf = up && flow.source > 2;
    const std::size_t waits = of_leaf ? 0 : up || flow.source == 0 ? 2 : 1;
    ASSERT_EQ(flow.after.size(), waits) << flow.source << " to " << flow.destination;
    for (const std::uint32_t before : flow.after) {
      ASSERT_LT(before, i);
      EXPECT_EQ(flows[before].destination, flow.source);
    }
  }
}

TEST(FlowPlan, poisson__offers_the_load_in_sizes_of_the_distribution) {
  Workload workload{.kind = WorkloadKind::kPoisson, .load = 0.4};
  // Half of the flows have up to 1000 bytes, half up to 9000: a mean of 500 / 2 + 5000 / 2 = 2750.
  workload.cdf = {{0, 0}, {1000, 0.5}, {9000, 1}};
  Scenario scenario = scenario_of(10, workload);
  scenario.duration = milliseconds(10);
  const std::vector<PlannedFlow> flows = plan_flows(scenario);
  double bytes = 0;
  double small = 0;
  Instant last{};
  for (const PlannedFlow& flow : flows) {
    EXPECT_NE(flow.source, flow.destination);
    EXPECT_GE(flow.start, last);
    EXPECT_LT(flow.start, Instant{} + scenario.duration);
    last = flow.start;
    bytes += static_cast<double>(flow.bytes);
    small += flow.bytes <= 1000;
  }
  // 10 hosts x 100 Gb/s x 0.4 x 10 ms = 500 MB, in some 182,000 flows.
  const auto count = static_cast<double>(flows.size());
  EXPECT_NEAR(bytes, 500e6, 0.02 * 500e6);
  EXPECT_NEAR(count, 500e6 / 2750, 0.02 * 500e6 / 2750);
  EXPECT_NEAR(small / count, 0.5, 0.01);
}

}  // namespace
}  // namespace roci::lab
