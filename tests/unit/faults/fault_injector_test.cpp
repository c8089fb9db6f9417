#include "drivers/faults/fault_injector.h"

#include <gtest/gtest.h>

#include <string>

#include "stack/wire/icrc.h"
#include "stack/wire/packet.h"
#include "tests/unit/faults/packets.h"

namespace roci {
namespace {

using test::Bytes;
using test::make_ack;
using test::make_arp;
using test::make_frame;

FaultInjector injector(std::string_view text, std::size_t log_records = 100) {
  FaultScript script;
  std::string error;
  EXPECT_TRUE(parse_fault_script(text, "test", &script, &error)) << error;
  return FaultInjector(script, log_records);
}

FaultVerdict judge(FaultInjector& faults, const Bytes& frame, FaultDirection direction = FaultDirection::kTx) {
  return faults.judge(frame, direction, Instant{});
}

/// "x" for each of `packets` that is dropped, else ".".
std::string drops(FaultInjector& faults, const std::vector<Bytes>& packets) {
  std::string out;
  for (const Bytes& packet : packets) out += judge(faults, packet).drop ? 'x' : '.';
  return out;
}

std::vector<Bytes> writes(std::uint32_t count, std::uint32_t first_psn = 0) {
  std::vector<Bytes> frames;
  for (std::uint32_t i = 0; i < count; ++i) frames.push_back(make_frame(Opcode::kRcWriteMiddle, first_psn + i));
  return frames;
}

TEST(FaultInjector, judge__nth_strikes_once) {
  auto faults = injector("drop nth=3");
  EXPECT_EQ(drops(faults, writes(8)), "..x.....");
}

TEST(FaultInjector, judge__nth_counts_matching_packets_only) {
  auto faults = injector("drop opcode=ack nth=2");
  EXPECT_EQ(
      drops(faults, {make_ack(0, 0x1f), make_frame(Opcode::kRcSendOnly, 0), make_ack(1, 0x1f), make_ack(2, 0x1f)}),
      "..x.");
}

TEST(FaultInjector, judge__every_and_times) {
  auto every = injector("drop every=3");
  EXPECT_EQ(drops(every, writes(9)), "x..x..x..");
  auto from_second = injector("drop nth=2 every=3");
  EXPECT_EQ(drops(from_second, writes(9)), ".x..x..x.");
  auto twice = injector("drop times=2");
  EXPECT_EQ(drops(twice, writes(4)), "xx..");
}

TEST(FaultInjector, judge__rate_is_about_right_and_the_same_for_the_same_seed) {
  auto one = injector("seed=5\ndrop rate=20%");
  auto same = injector("seed=5\ndrop rate=0.2");
  auto other = injector("seed=6\ndrop rate=20%");
  const auto packets = writes(2000);
  const std::string first = drops(one, packets);
  EXPECT_EQ(first, drops(same, packets));
  EXPECT_NE(first, drops(other, packets));
  EXPECT_NEAR(static_cast<double>(one.applied(FaultAction::kDrop)), 400, 80);
}

TEST(FaultInjector, judge__a_row_draws_the_same_whatever_rows_follow) {
  auto alone = injector("drop rate=0.5");
  auto in_company = injector("drop rate=0.5\ncorrupt rate=0.5\ndelay=1us..5us rate=0.5");
  const auto packets = writes(200);
  EXPECT_EQ(drops(alone, packets), drops(in_company, packets));
}

TEST(FaultInjector, judge__opcode_of_another_kind_passes) {
  auto faults = injector("drop opcode=RC_WRITE_MIDDLE");
  EXPECT_TRUE(judge(faults, make_frame(Opcode::kRcWriteMiddle, 0)).drop);
  EXPECT_FALSE(judge(faults, make_frame(Opcode::kRcWriteLast, 0)).drop);
  EXPECT_FALSE(judge(faults, make_arp()).drop);
}

TEST(FaultInjector, judge__syndrome_tells_ack_nak_and_rnr_nak) {
  const Bytes ack = make_ack(0, ack_syndrome(31));
  const Bytes nak = make_ack(0, nak_syndrome(NakCode::kPsnSequenceError));
  const Bytes rnr = make_ack(0, rnr_nak_syndrome(12));
  auto acks = injector("drop opcode=ack");
  EXPECT_EQ(drops(acks, {ack, nak, rnr}), "x..");
  auto naks = injector("drop opcode=nak");
  EXPECT_EQ(drops(naks, {ack, nak, rnr}), ".x.");
  auto rnrs = injector("drop opcode=rnr-nak");
  EXPECT_EQ(drops(rnrs, {ack, nak, rnr}), "..x");
  auto all = injector("drop opcode=RC_ACK");
  EXPECT_EQ(drops(all, {ack, nak, rnr}), "xxx");
}

TEST(FaultInjector, judge__qp_is_the_destination) {
  auto faults = injector("drop qp=7");
  EXPECT_FALSE(judge(faults, make_frame(Opcode::kRcSendOnly, 0, 6)).drop);
  EXPECT_TRUE(judge(faults, make_frame(Opcode::kRcSendOnly, 0, 7)).drop);
}

TEST(FaultInjector, judge__psn_counts_from_the_first_of_its_flow_across_the_wrap) {
  auto faults = injector("drop psn=2..3");
  EXPECT_EQ(drops(faults, writes(6, 0xff'fffe)), "..xx..");
  // A packet sent again has the same offset.
  EXPECT_TRUE(judge(faults, make_frame(Opcode::kRcWriteMiddle, 0)).drop);
}

TEST(FaultInjector, judge__requests_and_responses_to_one_qp_are_two_flows) {
  auto faults = injector("drop psn=1");
  EXPECT_FALSE(judge(faults, make_frame(Opcode::kRcSendOnly, 100)).drop);
  EXPECT_FALSE(judge(faults, make_ack(500, 0x1f)).drop);
  EXPECT_TRUE(judge(faults, make_frame(Opcode::kRcSendOnly, 101)).drop);
  EXPECT_TRUE(judge(faults, make_ack(501, 0x1f)).drop);
  EXPECT_FALSE(judge(faults, make_frame(Opcode::kRcSendOnly, 101), FaultDirection::kRx).drop);
}

TEST(FaultInjector, judge__more_flows_than_tracked_are_counted_and_pass) {
  auto faults = injector("drop psn=0");
  for (std::uint32_t qpn = 0; qpn < FaultInjector::kMaxFlows; ++qpn)
    ASSERT_TRUE(judge(faults, make_frame(Opcode::kRcSendOnly, 9, qpn)).drop);
  EXPECT_FALSE(judge(faults, make_frame(Opcode::kRcSendOnly, 9, 0x80'0000)).drop);
  EXPECT_EQ(faults.flows_untracked(), 1u);
}

TEST(FaultInjector, judge__direction) {
  auto faults = injector("drop dir=rx");
  EXPECT_FALSE(judge(faults, make_frame(Opcode::kRcSendOnly, 0), FaultDirection::kTx).drop);
  EXPECT_TRUE(judge(faults, make_frame(Opcode::kRcSendOnly, 0), FaultDirection::kRx).drop);
}

TEST(FaultInjector, judge__frames_that_are_not_roce_match_only_their_own_name) {
  auto all = injector("drop");
  EXPECT_FALSE(judge(all, make_arp()).drop);
  auto other = injector("drop opcode=not-roce");
  EXPECT_TRUE(judge(other, make_arp()).drop);
  EXPECT_FALSE(judge(other, make_frame(Opcode::kRcSendOnly, 0)).drop);
  EXPECT_TRUE(judge(other, Bytes(3)).drop);
  EXPECT_TRUE(judge(other, Bytes{}).drop);
}

TEST(FaultInjector, judge__rows_add_up) {
  auto faults = injector("duplicate=2\ndelay=3us\nduplicate\nreorder=4\ncorrupt=100\nmark-ce\ndelay=1us");
  const FaultVerdict verdict = judge(faults, make_frame(Opcode::kRcSendOnly, 0));
  EXPECT_FALSE(verdict.drop);
  EXPECT_EQ(verdict.copies, 3u);
  EXPECT_EQ(verdict.delay, microseconds(4));
  EXPECT_EQ(verdict.reorder_by, 4u);
  EXPECT_EQ(verdict.corrupt_bit, 100u);
  EXPECT_TRUE(verdict.mark_ce);
}

TEST(FaultInjector, judge__delay_is_drawn_from_its_range) {
  auto faults = injector("delay=1us..2us");
  Duration least = seconds(1);
  Duration most{};
  for (const Bytes& frame : writes(200)) {
    const Duration delay = judge(faults, frame).delay;
    least = std::min(least, delay);
    most = std::max(most, delay);
  }
  EXPECT_GE(least, microseconds(1));
  EXPECT_LT(least, nanoseconds(1100));
  EXPECT_GT(most, nanoseconds(1900));
  EXPECT_LE(most, microseconds(2));
}

TEST(FaultInjector, judge__disabled_lets_all_pass_and_counts_nothing) {
  auto faults = injector("drop nth=2");
  EXPECT_FALSE(judge(faults, make_ack(0, 0)).drop);
  faults.enable(false);
  EXPECT_FALSE(judge(faults, make_ack(0, 0)).drop);
  faults.enable(true);
  EXPECT_TRUE(judge(faults, make_ack(0, 0)).drop);
  EXPECT_EQ(faults.judged(), 2u);
}

TEST(FaultInjector, log__says_what_was_done_to_which_packet) {
  auto faults = injector("delay=1us opcode=request\ndrop opcode=ack", 2);
  judge(faults, make_ack(4, nak_syndrome(NakCode::kInvalidRequest)));
  faults.judge(make_frame(Opcode::kRcSendOnly, 7, 33), FaultDirection::kTx, Instant{500});
  faults.judge(make_ack(8, 0), FaultDirection::kRx, Instant{600});
  faults.judge(make_ack(9, 0), FaultDirection::kRx, Instant{700});
  ASSERT_EQ(faults.log().size(), 2u);
  const FaultRecord& delayed = faults.log()[0];
  EXPECT_EQ(delayed.packet, 1u);
  EXPECT_EQ(delayed.at, Instant{500});
  EXPECT_EQ(delayed.action, FaultAction::kDelay);
  EXPECT_EQ(delayed.direction, FaultDirection::kTx);
  EXPECT_EQ(delayed.opcode, static_cast<std::uint8_t>(Opcode::kRcSendOnly));
  EXPECT_EQ(delayed.dest_qpn, Qpn{33});
  EXPECT_EQ(delayed.psn, Psn(7));
  EXPECT_EQ(delayed.row, 0u);
  EXPECT_EQ(faults.log()[1].row, 1u);
  EXPECT_EQ(faults.unlogged(), 1u);
  EXPECT_EQ(faults.applied(FaultAction::kDrop), 2u);
}

TEST(ApplyChanges, corrupt__flips_one_bit_counted_from_the_frame_on_the_wire) {
  Bytes frame(20);
  apply_changes(frame, {.corrupt_bit = 8 * 14 + 1});
  EXPECT_EQ(frame[14], std::byte{0x40});
  apply_changes(frame, {.corrupt_bit = 8 * 20});
  EXPECT_EQ(frame[19], std::byte{0});
}

TEST(ApplyChanges, corrupt__random_bits_spare_the_ethernet_header) {
  auto faults = injector("corrupt");
  const Bytes frame = make_frame(Opcode::kRcSendOnly, 0);
  for (int i = 0; i < 2000; ++i) {
    const FaultVerdict verdict = judge(faults, frame);
    ASSERT_GE(verdict.corrupt_bit, 14u * 8);
    ASSERT_LT(verdict.corrupt_bit, frame.size() * 8);
  }
}

TEST(ApplyChanges, mark_ce__keeps_the_packet_good) {
  for (const bool is_v4 : {true, false}) {
    auto faults = injector("mark-ce");
    Bytes frame = make_frame(Opcode::kRcSendOnly, 3, 5, 0, is_v4);
    const FaultVerdict verdict = judge(faults, frame);
    apply_changes(frame, verdict);
    PacketView view;
    // The parser checks the IPv4 header's checksum.
    ASSERT_EQ(parse_packet(std::span(frame).first(std::min(frame.size(), kHeaderCopyBytes)),
                           static_cast<std::uint32_t>(frame.size()), &view),
              ParseStatus::kOk);
    EXPECT_EQ(view.traffic_class & 3, 3);
    EXPECT_EQ(compute_icrc(frame.data() + view.l3_offset, is_v4, view.icrc_offset - view.l3_offset),
              load_icrc(frame.data() + view.icrc_offset));
  }
}

}  // namespace
}  // namespace roci
