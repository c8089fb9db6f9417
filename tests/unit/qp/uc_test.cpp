// UC between two whole stacks: what is on the wire, what arrives in memory, what completes, and what is dropped.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/wire_pair.h"

namespace roci {
namespace {

using test::Frame;
using Log = std::vector<std::string>;

struct UcPair : test::WirePair {
  UcPair() : WirePair(defaults(), {}, QpType::kUc) {}

  void fill(std::size_t length, int seed) {
    for (std::size_t i = 0; i < length; ++i) a.memory[i] = static_cast<std::byte>(i * 7 + static_cast<unsigned>(seed));
  }
  void send(std::uint64_t wr_id, std::uint32_t length) {
    const Sge out = a.sge(0, length);
    a.post({.wr_id = wr_id, .opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &out});
  }
  SendRequest write(const Sge& out, std::size_t to) {
    return {.opcode = WrOpcode::kRdmaWrite,
            .flags = kSendSignaled,
            .num_sge = 1,
            .sges = &out,
            .remote_addr = b.address(to),
            .rkey = RKey{b.mr->key}};
  }
  bool arrived(std::size_t at, std::size_t length) const {
    return std::equal(a.memory.begin(), a.memory.begin() + static_cast<std::ptrdiff_t>(length),
                      b.memory.begin() + static_cast<std::ptrdiff_t>(at));
  }
  /// Loses the packets with these PSNs.
  auto losing(std::vector<std::uint32_t> psns) {
    return [psns](Frame& frame) {
      const std::string text = test::describe(frame);
      return std::none_of(psns.begin(), psns.end(),
                          [&](std::uint32_t psn) { return text.ends_with("psn=" + std::to_string(psn)); });
    };
  }
};

TEST(Uc, send__message_of_three_packets_arrives_whole_and_is_not_acknowledged) {
  UcPair pair;
  pair.fill(2500, 3);
  pair.b.post_receive(7, pair.b.sge(5000, 3000));
  pair.send(1, 2500);
  pair.run();
  EXPECT_EQ(pair.log, (Log{"> UC_SEND_FIRST psn=100", "> UC_SEND_MIDDLE psn=101", "> UC_SEND_LAST psn=102"}));
  EXPECT_TRUE(pair.arrived(5000, 2500));
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wr_id, 7u);
  EXPECT_EQ(received[0].byte_len, 2500u);
  EXPECT_EQ(received[0].flags, 0);
  const auto sent = pair.a.completions();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status, WcStatus::kSuccess);
}

TEST(Uc, write_with_immediate__arrives_and_tells_the_length) {
  UcPair pair;
  pair.fill(1500, 1);
  pair.b.post_receive(9, pair.b.sge(0, 0));
  const Sge out = pair.a.sge(0, 1500);
  SendRequest request = pair.write(out, 64);
  request.opcode = WrOpcode::kRdmaWriteWithImm;
  request.imm_or_rkey = 0x12345678;
  pair.a.post(request);
  pair.run();
  EXPECT_EQ(pair.log, (Log{"> UC_WRITE_FIRST psn=100", "> UC_WRITE_LAST_IMM psn=101"}));
  EXPECT_TRUE(pair.arrived(64, 1500));
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].opcode, WcOpcode::kRecvRdmaWithImm);
  EXPECT_EQ(received[0].imm_or_rkey, 0x12345678u);
  EXPECT_EQ(received[0].byte_len, 1500u);
}

// IBTA 9.8.2.2.2: a message with a gap is dropped, and its receive WQE takes the next one.
TEST(Uc, send__message_with_a_gap_is_dropped_and_the_next_takes_its_receive) {
  for (const std::uint32_t lost : {100u, 101u, 102u}) {
    UcPair pair;
    pair.b.post_receive(7, pair.b.sge(5000, 3000));
    pair.fill(2500, 3);
    pair.send(1, 2500);
    pair.run(pair.losing({lost}));
    EXPECT_TRUE(pair.b.completions().empty()) << lost;
    pair.fill(1200, 99);
    pair.send(2, 1200);
    pair.run();
    const auto received = pair.b.completions();
    ASSERT_EQ(received.size(), 1u) << lost;
    EXPECT_EQ(received[0].wr_id, 7u);
    EXPECT_EQ(received[0].byte_len, 1200u);
    EXPECT_TRUE(pair.arrived(5000, 1200)) << lost;
    EXPECT_EQ(pair.b.counters.uc_dropped_messages, lost == 100 ? 0u : 1u);
    EXPECT_EQ(pair.b.counters.out_of_sequence, 1u);
    EXPECT_EQ(pair.a.completions().size(), 2u);
    EXPECT_EQ(pair.b.qp->state(), QpState::kRts);
  }
}

TEST(Uc, send__whole_messages_around_a_lost_one_arrive) {
  UcPair pair;
  for (std::uint64_t i = 0; i < 3; ++i) pair.b.post_receive(i, pair.b.sge(5000 + 100 * i, 100));
  for (std::uint64_t i = 0; i < 3; ++i) pair.send(i, 50);
  pair.run(pair.losing({101}));
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].wr_id, 0u);
  EXPECT_EQ(received[1].wr_id, 1u);
}

TEST(Uc, send__without_a_receive_is_dropped_and_nobody_is_told) {
  UcPair pair;
  pair.send(1, 2500);
  pair.run();
  EXPECT_EQ(pair.log.size(), 3u);
  EXPECT_EQ(pair.b.counters.out_of_buffer, 1u);
  EXPECT_EQ(pair.b.counters.uc_dropped_messages, 1u);
  pair.b.post_receive(5, pair.b.sge(0, 100));
  pair.send(2, 100);
  pair.run();
  EXPECT_EQ(pair.b.completions().size(), 1u);
}

TEST(Uc, send__longer_than_the_receive_is_dropped_and_the_receive_stays) {
  UcPair pair;
  pair.b.post_receive(5, pair.b.sge(5000, 1100));
  pair.send(1, 1101);
  pair.run();
  EXPECT_TRUE(pair.b.completions().empty());
  EXPECT_EQ(pair.b.counters.resp_local_length_error, 1u);
  pair.send(2, 1100);
  pair.run();
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].byte_len, 1100u);
}

TEST(Uc, write__with_a_bad_key_or_without_the_right_changes_nothing) {
  UcPair pair;
  pair.fill(100, 5);
  const Sge out = pair.a.sge(0, 100);
  SendRequest request = pair.write(out, 0);
  request.rkey = RKey{pair.b.mr->key ^ 0x10000};
  pair.a.post(request);
  pair.run();
  EXPECT_EQ(pair.b.counters.resp_remote_access_errors, 1u);
  QpAttr attr;
  ASSERT_EQ(pair.b.device->modify_qp(pair.b.qp, attr, kQpAccessFlags), 0);
  pair.a.post(pair.write(out, 0));
  pair.run();
  EXPECT_EQ(pair.b.counters.resp_remote_invalid_request, 1u);
  EXPECT_EQ(pair.b.memory[1], std::byte{});
  EXPECT_EQ(pair.b.qp->state(), QpState::kRts);
  for (const Cqe& cqe : pair.a.completions()) EXPECT_EQ(cqe.status, WcStatus::kSuccess);
}

// IBTA 9.9.3, class A: the consumer's own fault.
TEST(Uc, send__into_memory_that_is_not_registered_fails_the_receiver) {
  UcPair pair;
  Sge bad = pair.b.sge(0, 100);
  bad.lkey = LKey{bad.lkey.value ^ 0x10000};
  pair.b.post_receive(5, bad);
  pair.send(1, 10);
  pair.run();
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, WcStatus::kLocProtErr);
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
}

TEST(Uc, packets_from_a_stranger__are_dropped) {
  UcPair pair;
  pair.b.post_receive(5, pair.b.sge(0, 100));
  pair.send(1, 10);
  pair.run([](Frame& frame) {
    frame[EthernetHeader::kSize + 15] ^= std::byte{0x40};
    test::seal(frame);
    return true;
  });
  EXPECT_TRUE(pair.b.completions().empty());
  EXPECT_EQ(pair.b.counters.rx_wrong_source, 1u);
}

TEST(Uc, operations_that_need_an_answer__cannot_be_posted) {
  UcPair pair;
  const Sge sge = pair.a.sge(0, 8);
  for (const WrOpcode opcode : {WrOpcode::kRdmaRead, WrOpcode::kAtomicCmpSwp, WrOpcode::kAtomicFetchAdd,
                                WrOpcode::kSendWithInv, WrOpcode::kLocalInv})
    EXPECT_EQ(pair.a.device->post_send(pair.a.qp, {.opcode = opcode, .num_sge = 1, .sges = &sge}), EINVAL);
}

// IBTA 9.9.3, class E: a receive of an SRQ does not wait for the next message.
TEST(Uc, shared_receives__a_message_with_a_gap_completes_its_receive_in_error) {
  UcPair pair;
  pair.b.device->destroy_qp(pair.b.qp);
  ASSERT_EQ(pair.b.device->create_srq(pair.b.pd, {.max_wr = 8, .max_sge = 1}, &pair.b.srq), 0);
  pair.b.create_qp(QpType::kUc);
  ASSERT_EQ(pair.a.device->modify_qp(pair.a.qp, {.state = QpState::kReset}, kQpStateAttr), 0);
  pair.a.connect(pair.b, UcPair::defaults());
  pair.b.connect(pair.a, UcPair::defaults());
  const Sge element = pair.b.sge(0, 3000);
  for (std::uint64_t i = 1; i <= 2; ++i)
    ASSERT_EQ(pair.b.device->post_srq_recv(pair.b.srq, {.wr_id = i, .num_sge = 1, .sges = &element}), 0);
  pair.send(1, 2500);
  pair.send(2, 100);
  pair.run(pair.losing({101}));
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].wr_id, 1u);
  EXPECT_EQ(received[0].status, WcStatus::kRemInvReqErr);
  EXPECT_EQ(received[1].wr_id, 2u);
  EXPECT_EQ(received[1].status, WcStatus::kSuccess);
}

}  // namespace
}  // namespace roci
