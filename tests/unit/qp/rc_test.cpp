// RC between two whole stacks: what is on the wire, what arrives in memory, what completes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "stack/wire/headers_l3.h"
#include "tests/support/wire_pair.h"

namespace roci {
namespace {

using test::Frame;
using test::WirePair;
using Log = std::vector<std::string>;

void fill(test::Host& host, std::size_t offset, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) host.memory[offset + i] = static_cast<std::byte>(i * 7 + 3);
}

bool same(test::Host& x, std::size_t x_offset, test::Host& y, std::size_t y_offset, std::size_t length) {
  return std::equal(x.memory.begin() + x_offset, x.memory.begin() + x_offset + length, y.memory.begin() + y_offset);
}

TEST(Rc, send__message_of_three_packets_arrives_whole) {
  WirePair pair;
  fill(pair.a, 0, 2500);
  const Sge out = pair.a.sge(0, 2500);
  pair.b.post_receive(7, pair.b.sge(5000, 3000));
  pair.a.post({.wr_id = 1, .opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &out});
  pair.run();
  EXPECT_EQ(pair.log, (Log{"> RC_SEND_FIRST psn=100", "> RC_SEND_MIDDLE psn=101", "> RC_SEND_LAST psn=102 ack",
                           "< RC_ACK psn=102 msn=1"}));
  EXPECT_TRUE(same(pair.a, 0, pair.b, 5000, 2500));
  EXPECT_EQ(pair.b.memory[7500], std::byte{});
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wr_id, 7u);
  EXPECT_EQ(received[0].byte_len, 2500u);
  EXPECT_EQ(received[0].opcode, WcOpcode::kRecv);
  const auto sent = pair.a.completions();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].wr_id, 1u);
  EXPECT_EQ(sent[0].status, WcStatus::kSuccess);
}

TEST(Rc, write_with_immediate__takes_a_receive_and_tells_the_length) {
  WirePair pair;
  fill(pair.a, 0, 1025);
  const Sge out = pair.a.sge(0, 1025);
  pair.b.post_receive(9, pair.b.sge(0, 0));
  pair.a.post({.opcode = WrOpcode::kRdmaWriteWithImm,
               .flags = kSendSignaled,
               .num_sge = 1,
               .sges = &out,
               .imm_or_rkey = 0x12345678,
               .remote_addr = pair.b.address(64),
               .rkey = RKey{pair.b.mr->key}});
  pair.run();
  EXPECT_TRUE(same(pair.a, 0, pair.b, 64, 1025));
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].opcode, WcOpcode::kRecvRdmaWithImm);
  EXPECT_EQ(received[0].byte_len, 1025u);
  EXPECT_EQ(received[0].imm_or_rkey, 0x12345678u);
  EXPECT_EQ(received[0].flags & kWcWithImm, kWcWithImm);
  EXPECT_EQ(pair.log.front(), "> RC_WRITE_FIRST psn=100");
}

TEST(Rc, read__gap_in_the_response_is_asked_for_again_from_there) {
  WirePair pair;
  fill(pair.b, 0, 5000);
  const Sge in = pair.a.sge(10, 5000);
  pair.a.post({.wr_id = 3,
               .opcode = WrOpcode::kRdmaRead,
               .flags = kSendSignaled,
               .num_sge = 1,
               .sges = &in,
               .remote_addr = pair.b.address(0),
               .rkey = RKey{pair.b.mr->key}});
  int responses = 0;
  pair.run(
      [&](Frame& frame) { return test::describe(frame).find("READ_RESP") == std::string::npos || ++responses != 3; });
  const auto done = pair.a.completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_TRUE(same(pair.b, 0, pair.a, 10, 5000));
  EXPECT_EQ(pair.a.counters.implied_nak_seq_err, 1u);
  EXPECT_EQ(pair.a.counters.local_ack_timeout_err, 0u);
  EXPECT_EQ(std::count(pair.log.begin(), pair.log.end(), "> RC_READ_REQUEST psn=102 ack"), 1);
}

TEST(Rc, write__lost_packet_is_nakked_once_and_sent_again_from_there) {
  WirePair pair;
  fill(pair.a, 0, 5000);
  const Sge out = pair.a.sge(0, 5000);
  pair.a.post({.opcode = WrOpcode::kRdmaWrite,
               .flags = kSendSignaled,
               .num_sge = 1,
               .sges = &out,
               .remote_addr = pair.b.address(0),
               .rkey = RKey{pair.b.mr->key}});
  pair.run();
  pair.log.clear();
  pair.a.completions();
  pair.a.post({.opcode = WrOpcode::kRdmaWrite,
               .flags = kSendSignaled,
               .num_sge = 1,
               .sges = &out,
               .remote_addr = pair.b.address(0),
               .rkey = RKey{pair.b.mr->key}});
  bool lost = false;
  pair.run([&](Frame& frame) {
    if (lost || test::describe(frame) != "RC_WRITE_MIDDLE psn=106") return true;
    lost = true;
    return false;
  });
  EXPECT_EQ(pair.log, (Log{"> RC_WRITE_FIRST psn=105", "> RC_WRITE_MIDDLE psn=106 LOST", "> RC_WRITE_MIDDLE psn=107",
                           "> RC_WRITE_MIDDLE psn=108", "> RC_WRITE_LAST psn=109 ack", "< RC_ACK psn=106 nak=0 msn=1",
                           "> RC_WRITE_MIDDLE psn=106", "> RC_WRITE_MIDDLE psn=107", "> RC_WRITE_MIDDLE psn=108",
                           "> RC_WRITE_LAST psn=109 ack", "< RC_ACK psn=109 msn=2"}));
  EXPECT_TRUE(same(pair.a, 0, pair.b, 0, 5000));
  EXPECT_EQ(pair.a.completions().size(), 1u);
  EXPECT_EQ(pair.a.counters.packet_seq_err, 1u);
  EXPECT_EQ(pair.b.counters.out_of_sequence, 3u);
}

TEST(Rc, send__without_a_receive_is_refused_until_there_is_one) {
  WirePair pair;
  const Sge out = pair.a.sge(0, 10);
  pair.a.post({.opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &out});
  pair.run();
  EXPECT_EQ(pair.log, (Log{"> RC_SEND_ONLY psn=100 ack", "< RC_ACK psn=100 rnr=12 msn=0"}));
  pair.b.post_receive(1, pair.b.sge(0, 10));
  pair.run_next_deadline();
  EXPECT_EQ(pair.b.completions().size(), 1u);
  EXPECT_EQ(pair.a.completions().size(), 1u);
}

TEST(Rc, atomics__duplicate_is_answered_from_the_saved_result) {
  WirePair pair;
  std::uint64_t value = 40;
  std::memcpy(pair.b.memory.data() + 64, &value, 8);
  const Sge in = pair.a.sge(0, 8);
  pair.a.post({.opcode = WrOpcode::kAtomicFetchAdd,
               .flags = kSendSignaled,
               .num_sge = 1,
               .sges = &in,
               .remote_addr = pair.b.address(64),
               .rkey = RKey{pair.b.mr->key},
               .compare_add = 2});
  bool lost = false;
  pair.run([&](Frame& frame) {
    return lost || test::describe(frame).find("ATOMIC") == std::string::npos || !(lost = true);
  });
  pair.run_next_deadline();
  std::memcpy(&value, pair.b.memory.data() + 64, 8);
  EXPECT_EQ(value, 42u);
  std::memcpy(&value, pair.a.memory.data(), 8);
  EXPECT_EQ(value, 40u);
  EXPECT_EQ(pair.b.counters.duplicate_request, 1u);
  EXPECT_EQ(pair.a.completions().size(), 1u);
}

/// Posts requests of one packet each, from PSN 100 on, all of the same 8 bytes.
void post_each(WirePair& pair, std::initializer_list<WrOpcode> opcodes) {
  const Sge element = pair.a.sge(0, 8);
  for (const WrOpcode opcode : opcodes)
    ASSERT_EQ(pair.a.device->post_send(pair.a.qp, {.opcode = opcode,
                                                   .flags = kSendSignaled,
                                                   .num_sge = 1,
                                                   .sges = &element,
                                                   .remote_addr = pair.b.address(64),
                                                   .rkey = RKey{pair.b.mr->key}}),
              0);
  pair.a.device->ring(pair.a.qp);
}

bool is_answer(const Frame& frame) { return test::describe(frame).find(" msn=") != std::string::npos; }

void read_packets(WirePair& pair, std::uint32_t packets) {
  const Sge in = pair.a.sge(0, packets * 1024);
  pair.a.post({.opcode = WrOpcode::kRdmaRead,
               .flags = kSendSignaled,
               .num_sge = 1,
               .sges = &in,
               .remote_addr = pair.b.address(0),
               .rkey = RKey{pair.b.mr->key}});
}

/// `b` answers what was asked, but the answers stay under way: they are what is returned. From then on its port is
/// full.
std::vector<Frame> hold_responses(WirePair& pair) {
  std::vector<Frame> held;
  pair.run([&](Frame& frame) {
    if (test::describe(frame).find("READ_RESP") == std::string::npos) return true;
    held.push_back(frame);
    return false;
  });
  pair.b.port.room_frames = 0;
  return held;
}

/// Answers to duplicates that nobody waits for any more do not count against a good request.
TEST(Rc, reads__asked_for_again_leave_room_for_new_ones) {
  WirePair pair;  // 4 READs at once
  for (int i = 0; i < 4; ++i) read_packets(pair, 1);
  const std::vector<Frame> held = hold_responses(pair);
  ASSERT_EQ(held.size(), 4u);
  pair.run_next_deadline();
  ASSERT_EQ(pair.b.counters.duplicate_request, 4u);
  pair.a.port.arrived.assign(held.begin(), held.end());
  for (int i = 0; i < 4; ++i) read_packets(pair, 1);
  pair.run();
  EXPECT_EQ(pair.a.completions().size(), 4u);
  pair.b.port.room_frames = 64;
  pair.run();
  EXPECT_EQ(pair.b.counters.resp_remote_invalid_request, 0u);
  const auto done = pair.a.completions();
  ASSERT_EQ(done.size(), 4u);
  for (const Cqe& cqe : done) EXPECT_EQ(cqe.status, WcStatus::kSuccess);
}

TEST(Rc, read__asked_for_again_from_further_on_each_time_is_answered_to_the_end) {
  QpAttr attr = WirePair::defaults();
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 2;
  WirePair pair(attr);
  read_packets(pair, 6);
  const std::vector<Frame> held = hold_responses(pair);
  ASSERT_EQ(held.size(), 6u);
  for (std::size_t i = 0; i < 4; ++i) {
    pair.run_next_deadline();
    pair.a.port.arrived.push_back(held[i]);
    pair.run();
  }
  pair.run_next_deadline();
  ASSERT_EQ(pair.log.back(), "> RC_READ_REQUEST psn=104 ack");
  pair.b.port.room_frames = 64;
  pair.run();
  const auto done = pair.a.completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
}

TEST(Rc, reads__more_than_allowed_at_once_are_refused) {
  QpAttr attr = WirePair::defaults();
  attr.max_dest_rd_atomic = 3;
  WirePair pair(attr);
  pair.b.port.room_frames = 0;
  for (int i = 0; i < 4; ++i) read_packets(pair, 1);
  pair.run();
  EXPECT_EQ(pair.b.counters.resp_remote_invalid_request, 1u);
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
}

/// Some requesters take an ACK with an atomic's PSN for its answer, and complete it with what was in memory before.
TEST(Rc, ack__of_a_duplicate_takes_in_no_read_or_atomic_behind_it) {
  for (const WrOpcode opcode : {WrOpcode::kAtomicFetchAdd, WrOpcode::kRdmaRead})
    for (const bool more : {false, true}) {
      WirePair pair;
      post_each(pair, {WrOpcode::kRdmaWrite, opcode});
      if (more) post_each(pair, {WrOpcode::kRdmaWrite});
      pair.run([](Frame& frame) { return !is_answer(frame); });
      pair.log.clear();
      pair.now = pair.a.device->worker().next_deadline();
      pair.run([](Frame& frame) { return test::describe(frame).find("psn=100") != std::string::npos; });
      ASSERT_GE(pair.log.size(), 3u);
      EXPECT_EQ(pair.log[0], "> RC_WRITE_ONLY psn=100 ack");
      EXPECT_EQ(std::count_if(pair.log.begin(), pair.log.end(), [](auto& line) { return line[0] == '<'; }), 1);
      EXPECT_EQ(pair.log.back(), more ? "< RC_ACK psn=100 msn=3" : "< RC_ACK psn=100 msn=2");
    }
}

TEST(Rc, ack__of_a_duplicate_with_only_writes_behind_it_takes_them_in) {
  WirePair pair;
  post_each(pair, {WrOpcode::kRdmaRead, WrOpcode::kRdmaWrite, WrOpcode::kRdmaWrite});
  pair.run([](Frame& frame) { return !is_answer(frame) || test::describe(frame).find("READ") != std::string::npos; });
  pair.log.clear();
  pair.now = pair.a.device->worker().next_deadline();
  pair.run([](Frame& frame) { return test::describe(frame).find("psn=102 ack") == std::string::npos; });
  EXPECT_EQ(pair.log,
            (Log{"> RC_WRITE_ONLY psn=101 ack", "> RC_WRITE_ONLY psn=102 ack LOST", "< RC_ACK psn=102 msn=3"}));
  EXPECT_EQ(pair.a.completions().size(), 3u);
}

TEST(Rc, ack__is_not_owed_when_a_response_tells_as_much) {
  WirePair pair;
  post_each(pair, {WrOpcode::kRdmaWrite, WrOpcode::kAtomicFetchAdd});
  pair.run();
  EXPECT_EQ(pair.log,
            (Log{"> RC_WRITE_ONLY psn=100 ack", "> RC_FETCH_ADD psn=101 ack", "< RC_ATOMIC_ACK psn=101 msn=2"}));
  EXPECT_EQ(pair.a.completions().size(), 2u);
}

TEST(Rc, timeout__ends_in_retry_exceeded_after_retry_cnt_and_flushes_the_rest) {
  WirePair pair;
  const Sge out = pair.a.sge(0, 10);
  for (std::uint64_t i = 0; i < 3; ++i)
    pair.a.post({.wr_id = i, .opcode = WrOpcode::kSend, .num_sge = 1, .sges = &out});
  const auto lose_all = [](Frame&) { return false; };
  pair.run(lose_all);
  const Instant start = pair.now;
  std::vector<Cqe> done;
  while (done.empty()) {
    ASSERT_NE(pair.a.device->worker().next_deadline(), kNever);
    pair.now = pair.a.device->worker().next_deadline();
    pair.run(lose_all);
    done = pair.a.completions();
  }
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].status, WcStatus::kRetryExcErr);
  EXPECT_EQ(done[1].status, WcStatus::kWrFlushErr);
  EXPECT_EQ(done[2].status, WcStatus::kWrFlushErr);
  EXPECT_EQ(pair.a.counters.local_ack_timeout_err, 8u);
  // From T = 4.096 us x 2^14 to 4 T, for the first transmission and each of seven retries (IBTA 9.7.6.1.3).
  const Duration least = nanoseconds(std::int64_t{4096} << 14) * 8;
  EXPECT_GE(pair.now - start, least);
  EXPECT_LE(pair.now - start, least * 4);
  EXPECT_EQ(pair.a.qp->state(), QpState::kErr);
}

TEST(Rc, timeout__is_put_off_while_the_peer_is_stopped) {
  WirePair pair;
  const Sge out = pair.a.sge(0, 10);
  pair.a.port.stalled = true;
  pair.a.post({.opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &out});
  pair.run([](Frame&) { return false; });
  for (int i = 0; i < 50; ++i) {
    pair.now = pair.a.device->worker().next_deadline();
    pair.run([](Frame&) { return false; });
  }
  EXPECT_TRUE(pair.a.completions().empty());
  EXPECT_EQ(pair.a.counters.local_ack_timeout_err, 0u);
  EXPECT_GE(pair.a.counters.peer_stalled_waits, 50u);
}

TEST(Rc, write__bad_rkey_is_refused_and_writes_nothing) {
  WirePair pair;
  fill(pair.a, 0, 100);
  const Sge out = pair.a.sge(0, 100);
  pair.a.post({.wr_id = 5,
               .opcode = WrOpcode::kRdmaWrite,
               .num_sge = 1,
               .sges = &out,
               .remote_addr = pair.b.address(0),
               .rkey = RKey{pair.b.mr->key ^ 0x10000}});
  pair.run();
  EXPECT_EQ(pair.log, (Log{"> RC_WRITE_ONLY psn=100 ack", "< RC_ACK psn=100 nak=2 msn=0"}));
  const auto done = pair.a.completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kRemAccessErr);
  EXPECT_EQ(pair.b.memory[0], std::byte{});
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
  EXPECT_EQ(pair.b.events.async.back().type, AsyncEventType::kQpAccessErr);
}

TEST(Rc, completion__whoever_sees_it_can_post_again) {
  WirePair pair;
  const Sge out = pair.a.sge(0, 8);
  const SendRequest request{.opcode = WrOpcode::kRdmaWrite,
                            .flags = kSendSignaled,
                            .num_sge = 1,
                            .sges = &out,
                            .remote_addr = pair.b.address(0),
                            .rkey = RKey{pair.b.mr->key}};
  std::atomic<bool> done{false};
  std::atomic<int> refused{0};
  // The application's thread, on a full send queue; the test's thread turns the workers.
  std::thread application([&] {
    for (std::uint32_t i = 0; i < pair.a.qp->capacity().max_send_wr; ++i)
      if (pair.a.device->post_send(pair.a.qp, request) != 0) ++refused;
    pair.a.device->ring(pair.a.qp);
    for (int seen = 0; seen < 20'000;) {
      Cqe cqe;
      if (pair.a.cq->poll({&cqe, 1}) == 0) continue;
      ++seen;
      if (pair.a.device->post_send(pair.a.qp, request) != 0) ++refused;
      pair.a.device->ring(pair.a.qp);
    }
    done = true;
  });
  while (!done) {
    pair.run();
    pair.log.clear();
  }
  application.join();
  EXPECT_EQ(refused, 0);
}

std::uint8_t credit_code_of(const Frame& frame) {
  PacketView view;
  EXPECT_EQ(parse_packet({frame.data(), std::min<std::size_t>(frame.size(), kHeaderCopyBytes)},
                         static_cast<std::uint32_t>(frame.size()), &view),
            ParseStatus::kOk);
  return aeth_value(view.aeth().syndrome);
}

/// IBTA 9.7.7.2: not more is sent than the responder has receives for, but for one message that asks.
TEST(Rc, credits__let_as_many_messages_go_as_there_are_receives_and_one) {
  WirePair pair;
  const Sge out = pair.a.sge(0, 8);
  for (std::uint64_t i = 0; i < 5; ++i)
    pair.a.post({.wr_id = i, .opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &out});
  pair.run();
  EXPECT_EQ(pair.log, (Log{"> RC_SEND_ONLY psn=100 ack", "< RC_ACK psn=100 rnr=12 msn=0"}));
  pair.log.clear();
  for (std::uint64_t i = 0; i < 3; ++i) pair.b.post_receive(i, pair.b.sge(0, 8));
  pair.run_next_deadline();
  // The first answer tells of two more receives: three more messages go, and the last of them finds none.
  EXPECT_EQ(pair.log,
            (Log{"> RC_SEND_ONLY psn=100 ack", "< RC_ACK psn=100 msn=1", "> RC_SEND_ONLY psn=101 ack",
                 "> RC_SEND_ONLY psn=102 ack", "> RC_SEND_ONLY psn=103 ack", "< RC_ACK psn=103 rnr=12 msn=3"}));
  EXPECT_EQ(pair.a.completions().size(), 3u);
}

TEST(Rc, credits__are_the_receives_posted_and_not_taken) {
  WirePair pair;
  const Sge out = pair.a.sge(0, 8);
  for (std::uint64_t i = 0; i < 7; ++i) pair.b.post_receive(i, pair.b.sge(0, 8));
  const auto code_of_next_ack = [&] {
    pair.a.post({.opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &out});
    std::uint8_t code = 0xff;
    pair.run([&](Frame& frame) {
      if (test::describe(frame).starts_with("RC_ACK")) code = credit_code_of(frame);
      return true;
    });
    return code;
  };
  // IBTA table 44: 6 is code 5, 5 rounds down to 4, and the codes to 4 are the numbers themselves.
  for (const int code : {5, 4, 4, 3, 2, 1, 0}) EXPECT_EQ(code_of_next_ack(), code);
}

TEST(Rc, credits__of_a_shared_receive_queue_have_no_limit) {
  WirePair pair;
  pair.b.device->destroy_qp(pair.b.qp);
  ASSERT_EQ(pair.b.device->create_srq(pair.b.pd, {.max_wr = 8, .max_sge = 1}, &pair.b.srq), 0);
  pair.b.create_qp();
  pair.b.connect(pair.a, WirePair::defaults());
  QpAttr reset{.state = QpState::kReset};
  ASSERT_EQ(pair.a.device->modify_qp(pair.a.qp, reset, kQpStateAttr), 0);
  pair.a.connect(pair.b, WirePair::defaults());
  const Sge in = pair.b.sge(0, 8);
  for (std::uint64_t i = 0; i < 4; ++i)
    ASSERT_EQ(pair.b.device->post_srq_recv(pair.b.srq, {.wr_id = i, .num_sge = 1, .sges = &in}), 0);
  const Sge out = pair.a.sge(0, 8);
  for (int i = 0; i < 4; ++i)
    pair.a.post({.opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &out});
  std::vector<std::uint8_t> codes;
  pair.run([&](Frame& frame) {
    if (test::describe(frame).starts_with("RC_ACK")) codes.push_back(credit_code_of(frame));
    return true;
  });
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{31, 31}));
  EXPECT_EQ(pair.a.completions().size(), 4u);
}

/// The receives of an SRQ are of its PD, whichever that of the QP is.
TEST(Rc, send__into_a_shared_receive_queue_of_another_domain) {
  for (const bool right_domain : {true, false}) {
    WirePair pair;
    test::Host& b = pair.b;
    b.device->destroy_qp(b.qp);
    Pd* other = nullptr;
    Mr* mr = nullptr;
    ASSERT_EQ(b.device->alloc_pd(&other), 0);
    ASSERT_EQ(b.device->reg_mr(other, b.memory.data(), 64, b.address(0), kAccessLocalWrite, &mr), 0);
    ASSERT_EQ(b.device->create_srq(other, {.max_wr = 8, .max_sge = 1}, &b.srq), 0);
    b.create_qp();
    b.connect(pair.a, WirePair::defaults());
    ASSERT_EQ(pair.a.device->modify_qp(pair.a.qp, {.state = QpState::kReset}, kQpStateAttr), 0);
    pair.a.connect(b, WirePair::defaults());
    const Sge in{b.address(0), 8, LKey{right_domain ? mr->key : b.mr->key}};
    ASSERT_EQ(b.device->post_srq_recv(b.srq, {.wr_id = 1, .num_sge = 1, .sges = &in}), 0);
    const Sge out = pair.a.sge(0, 8);
    pair.a.post({.opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &out});
    pair.run();
    const auto received = b.completions();
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].status, right_domain ? WcStatus::kSuccess : WcStatus::kLocProtErr);
    b.device->destroy_qp(std::exchange(b.qp, nullptr));
    b.device->destroy_srq(std::exchange(b.srq, nullptr));
    b.device->dereg_mr(mr);
    b.device->dealloc_pd(other);
  }
}

/// A READ of several requests, with its answers lost here and there: what is asked for again stays within the request
/// that was asked for before, since the responder answers nothing else as a duplicate.
TEST(Rc, read__in_parts_survives_a_loss_in_each) {
  for (std::uint32_t lost = 1; lost <= 20; ++lost) {
    WirePair pair(WirePair::defaults(), {.window = {.read_packets = 4}});
    fill(pair.b, 0, 9 * 1024 + 5);
    const Sge in = pair.a.sge(10, 9 * 1024 + 5);
    pair.a.post({.opcode = WrOpcode::kRdmaRead,
                 .flags = kSendSignaled,
                 .num_sge = 1,
                 .sges = &in,
                 .remote_addr = pair.b.address(0),
                 .rkey = RKey{pair.b.mr->key}});
    std::uint32_t count = 0;
    pair.run([&](Frame&) { return ++count != lost; });
    for (int i = 0; i < 3 && pair.a.qp->requester().has_outstanding(); ++i) pair.run_next_deadline();
    const auto done = pair.a.completions();
    ASSERT_EQ(done.size(), 1u) << lost;
    EXPECT_EQ(done[0].status, WcStatus::kSuccess) << lost;
    EXPECT_TRUE(same(pair.b, 0, pair.a, 10, 9 * 1024 + 5)) << lost;
    // Three requests are three messages to the responder; a SEND behind them is the fourth, whoever counts.
    pair.log.clear();
    const Sge out = pair.a.sge(0, 8);
    for (std::uint64_t i = 0; i < 2; ++i) pair.b.post_receive(i, pair.b.sge(0, 8));
    for (int i = 0; i < 2; ++i)
      pair.a.post({.opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &out});
    pair.run();
    ASSERT_FALSE(pair.log.empty());
    EXPECT_TRUE(pair.log.back().ends_with("msn=5")) << pair.log.back();
    EXPECT_EQ(pair.a.completions().size(), 2u) << lost;
  }
}

/// IBTA 10.10.2: a QP whose completions are lost stops, and says so.
TEST(Rc, completion__that_finds_its_queue_full_ends_the_qp) {
  WirePair pair;
  pair.a.device->destroy_qp(pair.a.qp);
  pair.a.device->destroy_cq(pair.a.cq);
  ASSERT_EQ(pair.a.device->create_cq(2, nullptr, &pair.a.cq), 0);
  pair.a.create_qp();
  pair.a.connect(pair.b, WirePair::defaults());
  ASSERT_EQ(pair.b.device->modify_qp(pair.b.qp, {.state = QpState::kReset}, kQpStateAttr), 0);
  pair.b.connect(pair.a, WirePair::defaults());
  const Sge out = pair.a.sge(0, 8);
  for (int i = 0; i < 4; ++i)
    pair.a.post({.opcode = WrOpcode::kRdmaWrite,
                 .flags = kSendSignaled,
                 .num_sge = 1,
                 .sges = &out,
                 .remote_addr = pair.b.address(0),
                 .rkey = RKey{pair.b.mr->key}});
  pair.run();
  EXPECT_EQ(pair.a.completions().size(), 2u);
  EXPECT_EQ(pair.a.qp->state(), QpState::kErr);
  ASSERT_EQ(pair.a.events.async.size(), 2u);
  EXPECT_EQ(pair.a.events.async[0].type, AsyncEventType::kCqErr);
  EXPECT_EQ(pair.a.events.async[1].type, AsyncEventType::kQpFatal);
  EXPECT_EQ(pair.a.events.async[1].qp, pair.a.qp);
}

/// Changes the last byte of an IPv4 address of the frame.
void change_address(Frame& frame, std::size_t offset_in_header) {
  constexpr std::size_t kL3 = EthernetHeader::kSize;
  std::byte* l3 = frame.data() + kL3;
  l3[offset_in_header + 3] ^= std::byte{0x40};
  test::seal(frame);
}

TEST(Rc, addresses__must_be_those_of_the_connection) {
  for (const std::size_t offset : {12u, 16u}) {
    WirePair pair;
    const Sge out = pair.a.sge(0, 8);
    pair.b.post_receive(1, pair.b.sge(0, 8));
    pair.a.post({.opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &out});
    pair.run([&](Frame& frame) {
      change_address(frame, offset);
      return true;
    });
    EXPECT_TRUE(pair.b.completions().empty());
    EXPECT_EQ(pair.b.counters.rx_packets, 1u);
    EXPECT_EQ(pair.b.counters.rx_wrong_source, offset == 12 ? 1u : 0u);
    EXPECT_EQ(pair.b.counters.rx_wrong_destination, offset == 16 ? 1u : 0u);
    pair.run_next_deadline();
    EXPECT_EQ(pair.b.completions().size(), 1u);
  }
}

TEST(Rc, psn__wraps_in_the_middle_of_a_message) {
  QpAttr attr = WirePair::defaults();
  attr.sq_psn = attr.rq_psn = Psn(0xfffffe);
  WirePair pair(attr);
  fill(pair.a, 0, 10000);
  const Sge out = pair.a.sge(0, 10000);
  for (int i = 0; i < 3; ++i)
    pair.a.post({.opcode = WrOpcode::kRdmaWrite,
                 .flags = kSendSignaled,
                 .num_sge = 1,
                 .sges = &out,
                 .remote_addr = pair.b.address(0),
                 .rkey = RKey{pair.b.mr->key}});
  int count = 0;
  pair.run([&](Frame&) { return ++count % 7 != 0; });
  for (int i = 0; i < 20 && pair.a.qp->sq().head() != 3; ++i) pair.run_next_deadline();
  EXPECT_EQ(pair.a.completions().size(), 3u);
  EXPECT_TRUE(same(pair.a, 0, pair.b, 0, 10000));
}

}  // namespace
}  // namespace roci
