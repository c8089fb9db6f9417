// Many to one at 100 Gb/s, against closed forms and the fluid model.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/lab/scenarios.h"
#include "tools/lab/experiment.h"

namespace roci::lab {
namespace {

/// Payload that the bottleneck can carry: packets of 1024 bytes are 1106 on the wire.
constexpr double kCapacityBps = 100e9 * 1024 / 1106;

const QueueResult& bottleneck(const Result& result) {
  for (const QueueResult& queue : result.queues)
    if (queue.port == 0 && queue.priority == 3) return queue;
  throw std::runtime_error("no queue towards host 0");
}

Result long_incast(std::uint32_t senders, const std::string& cc, const fabric::RedConfig& red) {
  Scenario scenario = star(senders + 1);
  set_cc(scenario, cc);
  scenario.fabric_switch.red = red;
  scenario.duration = milliseconds(150);
  scenario.warmup = milliseconds(50);
  scenario.workloads = {incast(senders)};
  return run(scenario);
}

class Incast : public testing::TestWithParam<std::uint32_t> {};

/// The queue at the fixed point of the fluid model of DCQCN's event form (Zhu et al., 2015 and 2016), in bytes:
/// p* = cbrt(R_AI N^2 / (K C^2) (1/B + N/(T C))^2), q* = Kmin + p*/Pmax (Kmax - Kmin), in packets of 1 KB.
double fluid_queue_bytes(double flows) {
  constexpr double kPacketBits = 1024 * 8;
  constexpr double kC = 100e9 / kPacketBits;
  constexpr double kRai = 40e6 / kPacketBits;
  constexpr double kB = 10e6 / 1024;
  constexpr double kT = 55e-6;
  constexpr double kK = 55e-6;
  const double p = std::cbrt(kRai * flows * flows / (kK * kC * kC) * std::pow(1 / kB + flows / (kT * kC), 2));
  return 5'000 + p / 0.01 * (200'000 - 5'000);
}

TEST(FluidModel, fixed_points_are_those_of_the_reference) {
  // Which are rounded, for packets of "1 KB".
  for (const auto& [flows, bytes] : {std::pair{2, 11'000.0}, {4, 19'000.0}, {8, 41'000.0}, {16, 95'000.0}})
    EXPECT_NEAR(fluid_queue_bytes(flows), bytes, 0.05 * bytes) << flows << " flows";
}

TEST_P(Incast, dcqcn_paper__fills_the_link_fairly_with_the_queue_of_the_fluid_model) {
  const std::uint32_t senders = GetParam();
  const Result result =
      long_incast(senders, "dcqcn,preset=paper", {.kmin_bytes = 5'000, .kmax_bytes = 200'000, .pmax = 0.01});
  EXPECT_GE(static_cast<double>(result.total.goodput_bps), 0.94 * kCapacityBps);
  EXPECT_LE(static_cast<double>(result.total.goodput_bps), 1.001 * kCapacityBps);
  EXPECT_GE(result.total.jain, 0.98);
  EXPECT_EQ(result.total.drops, 0u);
  EXPECT_EQ(result.total.retransmitted_packets, 0u);
  EXPECT_EQ(result.total.damaged_bytes, 0u);
  const double fluid = fluid_queue_bytes(senders);
  EXPECT_NEAR(bottleneck(result).mean_bytes, fluid, 0.25 * fluid);
}

TEST_P(Incast, dcqcn_timer_only__fills_the_link_fairly) {
  const Result result = long_incast(GetParam(), "dcqcn,preset=mlx,timer_only=1",
                                    {.kmin_bytes = 400'000, .kmax_bytes = 1'600'000, .pmax = 0.2});
  EXPECT_GE(static_cast<double>(result.total.goodput_bps), 0.94 * kCapacityBps);
  EXPECT_GE(result.total.jain, 0.98);
  EXPECT_EQ(result.total.drops, 0u);
  EXPECT_EQ(result.total.damaged_bytes, 0u);
}

TEST_P(Incast, pfc_only__gives_each_port_the_same_to_the_packet_and_drops_nothing) {
  const std::uint32_t senders = GetParam();
  Scenario scenario = star(senders + 1);
  scenario.fabric_switch.red.priorities = 0;
  scenario.duration = milliseconds(20);
  scenario.warmup = milliseconds(10);
  scenario.workloads = {incast(senders)};
  const Result result = run(scenario);
  EXPECT_EQ(result.total.drops, 0u);
  EXPECT_EQ(result.total.marks, 0u);
  EXPECT_GT(result.total.pfc_pauses, 0u);
  EXPECT_EQ(result.total.damaged_bytes, 0u);
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
  for (const FlowResult& flow : result.flows) {
    least = std::min(least, flow.bytes);
    most = std::max(most, flow.bytes);
  }
  // Where the two instants of counting fall in a round, and in a message, is worth a packet each.
  EXPECT_LE(most - least, 2 * 1024u);
  EXPECT_NEAR(static_cast<double>(result.total.goodput_bps), kCapacityBps, 0.001 * kCapacityBps);
}

INSTANTIATE_TEST_SUITE_P(Senders, Incast, testing::Values(2, 4, 8, 16), testing::PrintToStringParamName());

}  // namespace
}  // namespace roci::lab
