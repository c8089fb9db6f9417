// When a requester gives up, and when it must not: timeouts, RNR retries, peers that stand still, links without room.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sim/fault_pair.h"

namespace roci::simtest {
namespace {

constexpr std::uint32_t kOnePacket = 100;
using Log = std::vector<std::string>;

QpAttr with_retries(std::uint8_t retry_cnt, std::uint8_t rnr_retry = 7) {
  QpAttr attr = FaultPair::default_attr();
  attr.retry_cnt = retry_cnt;
  attr.rnr_retry = rnr_retry;
  return attr;
}

std::vector<WcStatus> statuses(const FaultPair::Side& side) {
  std::vector<WcStatus> out;
  for (const Cqe& cqe : side.completions) out.push_back(cqe.status);
  return out;
}

class RetryCount : public testing::TestWithParam<std::uint8_t> {};

// IBTA 9.9.2.4.1: retry_cnt retransmissions, each after a timeout of T to 4T, and one timeout more.
TEST_P(RetryCount, a_silent_peer_ends_in_an_error_after_that_many_retransmissions) {
  const std::uint8_t retry_cnt = GetParam();
  FaultPair pair({.to_b = "drop opcode=request", .attr = with_retries(retry_cnt)});
  pair.post(WrOpcode::kRdmaWrite, kOnePacket);
  pair.post(WrOpcode::kSend, kOnePacket);
  pair.run(pair.timeout() * (retry_cnt + 1) - microseconds(1));
  EXPECT_TRUE(pair.a.completions.empty());
  pair.run(pair.timeout() * 4 * (retry_cnt + 1));
  EXPECT_EQ(statuses(pair.a), (std::vector{WcStatus::kRetryExcErr, WcStatus::kWrFlushErr}));
  EXPECT_EQ(pair.a.qp->state(), QpState::kErr);
  std::size_t oldest_sent = 0;
  for (const SeenFrame& frame : pair.sent_by(pair.a)) oldest_sent += frame.psn == Psn(FaultPair::kFirstPsn) ? 1 : 0;
  EXPECT_EQ(oldest_sent, retry_cnt + 1u);
  EXPECT_EQ(pair.a.counters().req_transport_retries_exceeded, 1u);
  // What is posted now is flushed too.
  pair.post(WrOpcode::kRdmaRead, kOnePacket);
  pair.run(microseconds(10));
  EXPECT_EQ(statuses(pair.a).back(), WcStatus::kWrFlushErr);
  EXPECT_EQ(pair.a.completions.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Counts, RetryCount, testing::Values(0, 1, 3, 7));

TEST(Retries, progress__gives_all_retries_back) {
  // Each message is lost twice: the first two of every three request packets.
  FaultPair pair(
      {.to_b = "drop opcode=request nth=1 every=3\ndrop opcode=request nth=2 every=3", .attr = with_retries(2)});
  for (int i = 0; i < 5; ++i) {
    pair.post(WrOpcode::kRdmaWrite, kOnePacket);
    pair.run(milliseconds(40));
  }
  EXPECT_EQ(statuses(pair.a), std::vector(5, WcStatus::kSuccess));
  EXPECT_EQ(pair.a.counters().local_ack_timeout_err, 10u);
}

TEST(Retries, timeout_of_zero__waits_for_ever_but_still_hears_a_nak) {
  QpAttr attr = with_retries(1);
  attr.timeout = 0;
  FaultPair pair({.to_b = "drop opcode=request nth=1", .attr = attr});
  pair.post(WrOpcode::kRdmaWrite, kOnePacket);
  pair.run(seconds(1000));
  EXPECT_TRUE(pair.a.completions.empty());
  EXPECT_EQ(pair.sent_by(pair.a).size(), 1u);
  pair.post(WrOpcode::kRdmaWrite, kOnePacket);
  pair.run(milliseconds(1));
  EXPECT_EQ(statuses(pair.a), std::vector(2, WcStatus::kSuccess));
}

TEST(Retries, address_that_nobody_has__ends_in_an_error) {
  FaultPair pair({.attr = with_retries(1)});
  QpAttr attr{.state = QpState::kSqd};
  ASSERT_EQ(pair.a.host->device().modify_qp(pair.a.qp, attr, kQpStateAttr), 0);
  attr.av.dgid = sim::v4_address(77);
  ASSERT_EQ(pair.a.host->device().modify_qp(pair.a.qp, attr, kQpAv), 0);
  attr.state = QpState::kRts;
  ASSERT_EQ(pair.a.host->device().modify_qp(pair.a.qp, attr, kQpStateAttr), 0);
  pair.post(WrOpcode::kRdmaWrite, kOnePacket);
  pair.run(milliseconds(40));
  EXPECT_EQ(statuses(pair.a), std::vector{WcStatus::kRetryExcErr});
  EXPECT_EQ(pair.a.host->port().unreachable_frames(), 2u);
}

TEST(Retries, nak_for_a_bad_key__lost_ends_in_exhausted_retries) {
  for (const bool lost : {false, true}) {
    FaultPair pair({.to_a = lost ? "drop opcode=nak" : "", .attr = with_retries(2)});
    const Sge sge = pair.a.sge(0, kOnePacket);
    ASSERT_EQ(pair.a.host->post_send(pair.a.qp, {.opcode = WrOpcode::kRdmaWrite,
                                                 .num_sge = 1,
                                                 .sges = &sge,
                                                 .remote_addr = pair.b.iova(),
                                                 .rkey = RKey{pair.b.mr->key ^ 0x10000}}),
              0);
    pair.run(milliseconds(100));
    EXPECT_EQ(statuses(pair.a), std::vector{lost ? WcStatus::kRetryExcErr : WcStatus::kRemAccessErr});
    EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
  }
}

// The timer counts from the packet that asks for an answer (9.7.6.1.3). On a link of 20 Mb/s with room for one frame a
// message of 60 packets takes 26 ms, and the timeout is 4 ms: what waits for room must not run out of retries.
TEST(Retries, slow_link__packets_that_wait_for_room_are_not_given_up) {
  FaultPair pair({.to_b = "drop nth=60", .link = {.rate_bps = 20'000'000, .queue_frames = 1}, .attr = with_retries(2)});
  pair.post(WrOpcode::kRdmaWrite, 60 * FaultPair::kMtu);
  pair.run(milliseconds(200));
  EXPECT_EQ(statuses(pair.a), std::vector{WcStatus::kSuccess});
}

// A WQE that cannot be sent waits for those before it, and they for their ACK: its fault must not stop their timer.
TEST(Retries, bad_local_key__behind_a_lost_message_completes_after_it) {
  FaultPair pair({.to_b = "drop opcode=request nth=1"});
  pair.post(WrOpcode::kRdmaWrite, kOnePacket);
  const Sge bad{pair.a.iova(), kOnePacket, LKey{pair.a.mr->key ^ 0x10000}};
  ASSERT_EQ(pair.a.host->post_send(pair.a.qp, {.opcode = WrOpcode::kSend, .num_sge = 1, .sges = &bad}), 0);
  pair.run(milliseconds(40));
  EXPECT_EQ(statuses(pair.a), (std::vector{WcStatus::kSuccess, WcStatus::kLocProtErr}));
  EXPECT_EQ(pair.a.counters().local_ack_timeout_err, 1u);
}

TEST(Retries, stopped_peer__that_the_link_knows_of_is_waited_for) {
  FaultPair pair({.attr = with_retries(1)});
  pair.b.host->stop(true);
  pair.post(WrOpcode::kRdmaWrite, kOnePacket);
  pair.run(seconds(50));
  EXPECT_TRUE(pair.a.completions.empty());
  EXPECT_EQ(pair.a.counters().retransmitted_packets, 0u);
  EXPECT_GT(pair.a.counters().peer_stalled_waits, 0u);
  pair.b.host->resume();
  pair.run(milliseconds(1));
  EXPECT_EQ(statuses(pair.a), std::vector{WcStatus::kSuccess});
}

TEST(Retries, stopped_peer__is_given_up_after_a_minute) {
  FaultPair pair({.attr = with_retries(1)});
  pair.b.host->stop(true);
  pair.post(WrOpcode::kRdmaWrite, kOnePacket);
  pair.run(seconds(61));
  EXPECT_EQ(statuses(pair.a), std::vector{WcStatus::kRetryExcErr});
}

TEST(Retries, stopped_peer__that_the_link_knows_nothing_of_is_a_silent_one) {
  FaultPair pair({.attr = with_retries(1)});
  pair.b.host->stop(false);
  pair.post(WrOpcode::kRdmaWrite, kOnePacket);
  pair.run(milliseconds(40));
  EXPECT_EQ(statuses(pair.a), std::vector{WcStatus::kRetryExcErr});
}

// IBTA 9.7.5.2.8: rnr_retry retransmissions; 7 is without end. Timer code 12 is 0.64 ms (table 45).
TEST(RnrRetries, count__is_kept_exactly) {
  FaultPair pair({.attr = with_retries(7, 2)});
  pair.post(WrOpcode::kSend, kOnePacket);
  pair.run(milliseconds(20));
  EXPECT_EQ(statuses(pair.a), std::vector{WcStatus::kRnrRetryExcErr});
  EXPECT_EQ(pair.log(), (Log{"A> RC_SEND_ONLY 16777214", "B> RC_ACK 16777214 RNR", "A> RC_SEND_ONLY 16777214",
                             "B> RC_ACK 16777214 RNR", "A> RC_SEND_ONLY 16777214", "B> RC_ACK 16777214 RNR"}));
  const auto sent = pair.sent_by(pair.a);
  for (std::size_t i = 1; i < sent.size(); ++i) EXPECT_GE(sent[i].at - sent[i - 1].at, microseconds(640));
}

TEST(RnrRetries, seven__is_without_end) {
  FaultPair pair({});
  pair.post(WrOpcode::kSend, kOnePacket);
  pair.run(seconds(10));
  EXPECT_TRUE(pair.a.completions.empty());
  EXPECT_EQ(pair.a.counters().local_ack_timeout_err, 0u);
  pair.post_receive(0, kOnePacket);
  pair.run(milliseconds(2));
  EXPECT_EQ(statuses(pair.a), std::vector{WcStatus::kSuccess});
}

// What follows the refused message has to wait with it: the responder takes nothing beyond the gap.
TEST(RnrRetries, later_messages__are_sent_again_after_the_refused_one) {
  FaultPair pair({});
  pair.post(WrOpcode::kSend, kOnePacket);
  pair.post(WrOpcode::kRdmaWrite, kOnePacket, 0, 4096);
  pair.run(microseconds(100));
  pair.post_receive(0, kOnePacket);
  pair.run(milliseconds(2));
  EXPECT_EQ(statuses(pair.a), std::vector(2, WcStatus::kSuccess));
  EXPECT_EQ(pair.b.counters().rx_write_requests, 1u);
  EXPECT_TRUE(pair.naks_sent_by(pair.b).empty());
}

// Each of the two gaps, before the packet that comes late and after it, is one NAK.
TEST(Reordering, two_packets_that_change_places__cost_no_timeout) {
  FaultPair pair({.to_b = "reorder=1 opcode=RC_WRITE_MIDDLE nth=1"});
  pair.post(WrOpcode::kRdmaWrite, 4 * FaultPair::kMtu);
  pair.run(milliseconds(40));
  EXPECT_EQ(statuses(pair.a), std::vector{WcStatus::kSuccess});
  const auto naks = pair.naks_sent_by(pair.b);
  ASSERT_EQ(naks.size(), 2u);
  EXPECT_EQ(naks[0].psn, Psn(FaultPair::kFirstPsn + 1));
  EXPECT_EQ(naks[1].psn, Psn(FaultPair::kFirstPsn + 2));
  EXPECT_EQ(pair.a.counters().local_ack_timeout_err, 0u);
  EXPECT_EQ(pair.b.counters().rx_write_requests, 4u);
}

TEST(Marking, ce_marks__change_nothing_for_the_transport) {
  FaultPair pair({.to_b = "mark-ce", .to_a = "mark-ce"});
  pair.post(WrOpcode::kRdmaWrite, 4 * FaultPair::kMtu);
  pair.run(milliseconds(1));
  EXPECT_EQ(statuses(pair.a), std::vector{WcStatus::kSuccess});
  EXPECT_EQ(pair.a.counters().rx_malformed + pair.b.counters().rx_malformed, 0u);
  EXPECT_EQ(pair.a.counters().retransmitted_packets, 0u);
}

}  // namespace
}  // namespace roci::simtest
