// How much a turn does, and what it puts off.
#include "stack/engine/worker.h"

#include <gtest/gtest.h>

#include "tests/support/wire_pair.h"

namespace roci {
namespace {

using test::Frame;
using test::WirePair;

const Frame kNothing(64, std::byte{0});  // of no protocol that is known

void receive_nothing(test::Host& host, std::size_t frames) {
  host.port.arrived.insert(host.port.arrived.end(), frames, kNothing);
}

TEST(Worker, turn__answers_before_all_of_a_window_is_taken_in) {
  WirePair pair;
  constexpr std::uint32_t kWindow = WindowPolicy{}.packets;
  const Sge out = pair.a.sge(0, kWindow * 1024);
  pair.a.post({.opcode = WrOpcode::kRdmaWrite,
               .num_sge = 1,
               .sges = &out,
               .remote_addr = pair.b.address(0),
               .rkey = RKey{pair.b.mr->key}});
  pair.a.device->worker().turn(pair.now, TurnReason::kPoll);
  ASSERT_EQ(pair.a.port.sent.size(), kWindow);
  pair.b.port.arrived.swap(pair.a.port.sent);
  pair.b.device->worker().turn(pair.now, TurnReason::kPoll);
  EXPECT_EQ(pair.b.port.arrived.size(), kWindow - Worker::kMaxReceivedPerTurn);
  EXPECT_EQ(pair.b.port.sent.size(), 1u) << "the ACK";
}

/// With frames waiting a deadline is put off, since its answer may be among them; but not by those that came later.
TEST(Worker, deadline__strikes_although_frames_never_stop_coming) {
  WirePair pair;
  const Sge out = pair.a.sge(0, 8);
  pair.a.post({.opcode = WrOpcode::kRdmaWrite,
               .num_sge = 1,
               .sges = &out,
               .remote_addr = pair.b.address(0),
               .rkey = RKey{pair.b.mr->key}});
  Worker& worker = pair.a.device->worker();
  worker.turn(pair.now, TurnReason::kPoll);
  pair.a.port.sent.clear();
  const Instant late = worker.next_deadline() + milliseconds(1);
  std::uint32_t taken_in = 0;
  while (pair.a.port.sent.empty() && taken_in < 100'000) {
    receive_nothing(pair.a, 2 * Worker::kMaxReceivedPerTurn);
    taken_in += worker.turn(late, TurnReason::kPoll).frames_received;
  }
  EXPECT_EQ(taken_in, Worker::kLongBacklogFrames);
  ASSERT_EQ(pair.a.port.sent.size(), 1u);
  EXPECT_EQ(test::describe(pair.a.port.sent[0]), "RC_WRITE_ONLY psn=100 ack");
}

TEST(Worker, pfc__tells_of_a_backlog_that_is_longer_than_a_turn_and_of_its_end) {
  DeviceConfig config;
  config.egress.pfc = 1u << 3;
  WirePair pair(WirePair::defaults(), config);
  pair.a.port.sends_pfc = true;
  Worker& worker = pair.a.device->worker();
  const Counters& counters = pair.a.counters;
  receive_nothing(pair.a, Worker::kBacklogFrames + 10);
  for (std::uint32_t taken_in = Worker::kMaxReceivedPerTurn; taken_in < Worker::kBacklogFrames;
       taken_in += Worker::kMaxReceivedPerTurn) {
    worker.turn(pair.now, TurnReason::kPoll);
    EXPECT_EQ(counters.priority[3].tx_pause, 0u) << "after " << taken_in;
  }
  worker.turn(pair.now, TurnReason::kPoll);
  EXPECT_EQ(counters.priority[3].tx_pause, 1u) << "XOFF";
  worker.turn(pair.now, TurnReason::kPoll);
  EXPECT_EQ(counters.priority[3].tx_pause, 2u) << "XON";
  EXPECT_EQ(pair.a.port.sent.size(), 2u);
}

}  // namespace
}  // namespace roci
