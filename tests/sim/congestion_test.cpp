// Congestion control and PFC of two whole stacks in virtual time, against the formulas and layouts.
#include <gtest/gtest.h>

#include "cc/registry.h"
#include "stack/wire/pfc_frame.h"
#include "stack/wire/traffic_class.h"
#include "tests/sim/fault_pair.h"

namespace roci::simtest {
namespace {

constexpr std::uint64_t kGbps = 1'000'000'000;
constexpr std::uint32_t kMessageBytes = 32 * 1024;

FaultPair::Options options_with(const std::string& cc, const std::string& faults_to_b) {
  FaultPair::Options options;
  options.to_b = faults_to_b;
  options.device.cc = parse_cc(cc).value;
  options.device.egress.marks_data = true;
  options.device.egress.pfc = 1 << 3;
  return options;
}

const QpRate& rate_of(const FaultPair::Side& side) { return side.counters().rates[0]; }

TEST(Cnp, bytes__are_those_of_the_annex) {
  // IBTA A17.9.3: opcode 0x81, solicited, migration and pad 0, P_Key, BECN, the sender's QPN, PSN 0, 16 bytes of 0.
  FaultPair pair(options_with("dcqcn,preset=paper", "mark-ce nth=1"));
  pair.post(WrOpcode::kRdmaWrite, kMessageBytes);
  pair.run(microseconds(50));
  ASSERT_EQ(pair.cnps.size(), 1u);
  const std::vector<std::byte>& frame = pair.cnps[0];
  ASSERT_EQ(frame.size(), 74u) << "14 + 20 + 8 + 12 + 16 + 4";
  EXPECT_EQ(ecn_of(traffic_class_at(frame.data() + 14, true)), Ecn::kNotEct);
  EXPECT_EQ(traffic_class_at(frame.data() + 14, true) >> 2, 48);
  std::array<std::uint8_t, 28> expected{0x81, 0x00, 0xff, 0xff, 0x40};
  const std::uint32_t qpn = pair.a.qp->qpn().value;
  for (std::size_t i = 0; i < 3; ++i) expected[5 + i] = static_cast<std::uint8_t>(qpn >> (16 - 8 * i));
  EXPECT_EQ(std::memcmp(frame.data() + 42, expected.data(), expected.size()), 0);
  EXPECT_EQ(pair.b.counters().np_ecn_marked_roce_packets, 1u);
  EXPECT_EQ(pair.b.counters().np_cnp_sent, 1u);
  EXPECT_EQ(pair.a.counters().rp_cnp_handled, 1u);
}

TEST(Cnp, interval__a_mark_within_it_is_forgotten) {
  FaultPair pair(options_with("dcqcn,preset=paper,min_time_between_cnps=10us", "mark-ce rate=100%"));
  for (int i = 0; i < 20; ++i) pair.post(WrOpcode::kRdmaWrite, kMessageBytes);
  pair.run(milliseconds(2));
  ASSERT_GT(pair.b.counters().np_ecn_marked_roce_packets, 100u);
  std::vector<Instant> sent;
  for (const SeenFrame& frame : pair.sent_by(pair.b))
    if (frame.opcode == Opcode::kCnp) sent.push_back(frame.at);
  ASSERT_GT(sent.size(), 5u);
  for (std::size_t i = 1; i < sent.size(); ++i) EXPECT_GE((sent[i] - sent[i - 1]).ps, microseconds(10).ps);
}

TEST(Cnp, without_an_algorithm__marks_are_counted_and_not_answered) {
  FaultPair pair(options_with("none", "mark-ce rate=100%"));
  pair.post(WrOpcode::kRdmaWrite, kMessageBytes);
  pair.run(microseconds(100));
  EXPECT_EQ(pair.b.counters().np_ecn_marked_roce_packets, kMessageBytes / FaultPair::kMtu);
  EXPECT_TRUE(pair.cnps.empty());
}

TEST(Dcqcn, one_mark__halves_the_rate_and_half_of_the_gap_closes_every_55_us) {
  FaultPair pair(options_with("dcqcn,preset=paper", "mark-ce nth=1"));
  for (int i = 0; i < 60; ++i) pair.post(WrOpcode::kRdmaWrite, kMessageBytes);
  pair.run(microseconds(10));
  // The first cut has alpha = 1: Rc = C / 2, Rt = C.
  EXPECT_EQ(rate_of(pair.a).current_rate_bps, 50 * kGbps);
  EXPECT_EQ(rate_of(pair.a).target_rate_bps, 100 * kGbps);
  EXPECT_EQ(rate_of(pair.a).alpha_ppm, 1'000'000u);
  pair.run(microseconds(50));
  EXPECT_EQ(rate_of(pair.a).current_rate_bps, 75 * kGbps);
  pair.run(microseconds(55));
  EXPECT_EQ(rate_of(pair.a).current_rate_bps, 87'500'000'000u);
  pair.run(microseconds(55));
  EXPECT_EQ(rate_of(pair.a).current_rate_bps, 93'750'000'000u);
}

TEST(Dcqcn, a_cut__shows_on_the_wire) {
  FaultPair::Options options = options_with("dcqcn,preset=paper", "mark-ce nth=1");
  options.device.egress.catch_up = microseconds(1);  // a host's turns are 100 ns apart at least
  FaultPair pair(options);
  for (int i = 0; i < 60; ++i) pair.post(WrOpcode::kRdmaWrite, kMessageBytes);
  pair.run(microseconds(50));
  std::vector<Instant> sent;
  for (const SeenFrame& frame : pair.sent_by(pair.a))
    if (frame.at > Instant{} + microseconds(10)) sent.push_back(frame.at);
  ASSERT_GT(sent.size(), 100u);
  // 1106 bytes at 50 Gb/s: 176.96 ns; 2.56 ns more for one packet in 32, which has a RETH.
  const double mean_ps = static_cast<double>((sent.back() - sent.front()).ps) / static_cast<double>(sent.size() - 1);
  EXPECT_NEAR(mean_ps, 176'960 + 2'560.0 / 32, 200);
}

/// Gives the host a PFC frame as its link partner would.
void receive_pfc(FaultPair& pair, const PfcFrame& pfc) {
  sim::Network& network = pair.simulation.network();
  sim::PooledFrame frame = network.allocate();
  frame.size = kPfcFrameBytes;
  write_pfc_frame(network.memory(frame), sim::mac_address(1), pfc);
  network.ports()[0]->arrive(frame);
}

TEST(Pfc, xoff__holds_back_its_priority_for_its_time) {
  FaultPair pair(options_with("none", ""));
  for (int i = 0; i < 60; ++i) pair.post(WrOpcode::kRdmaWrite, kMessageBytes);
  pair.run(microseconds(5));
  PfcFrame pfc{.class_enable = 1 << 3};
  pfc.time_quanta[3] = 4000;  // of 5.12 ns at 100 Gb/s: 20.48 us
  receive_pfc(pair, pfc);
  const Instant paused = pair.simulation.now();
  pair.run(microseconds(40));
  std::size_t during = 0;
  std::size_t after = 0;
  for (const SeenFrame& frame : pair.sent_by(pair.a)) {
    if (frame.at <= paused) continue;
    ++(frame.at < paused + nanoseconds(20'480) ? during : after);
  }
  EXPECT_LE(during, 1u) << "what was handed over in the same instant";
  EXPECT_GT(after, 50u);
  EXPECT_EQ(pair.a.counters().priority[3].rx_pause, 1u);
  EXPECT_EQ(pair.a.counters().priority[3].rx_pause_duration, 20u);
}

TEST(Pfc, other_priorities_and_those_without_pfc__go_on) {
  FaultPair pair(options_with("none", ""));
  for (int i = 0; i < 20; ++i) pair.post(WrOpcode::kRdmaWrite, kMessageBytes);
  pair.run(microseconds(5));
  PfcFrame pfc{.class_enable = 0xff & ~(1 << 3)};
  pfc.time_quanta.fill(0xffff);
  receive_pfc(pair, pfc);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.completions.size(), 20u);
  EXPECT_EQ(pair.a.counters().rx_pause_ignored, 1u);
}

TEST(Pfc, xon__ends_the_pause) {
  FaultPair pair(options_with("none", ""));
  for (int i = 0; i < 60; ++i) pair.post(WrOpcode::kRdmaWrite, kMessageBytes);
  pair.run(microseconds(5));
  PfcFrame pfc{.class_enable = 1 << 3};
  pfc.time_quanta[3] = 0xffff;
  receive_pfc(pair, pfc);
  pair.run(microseconds(10));
  pfc.time_quanta[3] = 0;
  receive_pfc(pair, pfc);
  pair.run(microseconds(300));
  EXPECT_EQ(pair.a.completions.size(), 60u);
  EXPECT_NEAR(static_cast<double>(pair.a.counters().priority[3].rx_pause_duration), 10, 1) << "whole microseconds";
}

}  // namespace
}  // namespace roci::simtest
