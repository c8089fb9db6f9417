// Memory windows between two whole stacks: binds and invalidations in the order of the send queue, and by the peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/wire_pair.h"

namespace roci {
namespace {

using test::Frame;
using test::WirePair;
using Log = std::vector<std::string>;

constexpr std::uint64_t kWindowBytes = 256;

/// The peer `b` has a window over the first bytes of its memory, of which `a` makes use.
struct WindowPair : ::testing::Test {
  void SetUp() override {
    pair.b.register_memory(kAccessLocalWrite | kAccessMwBind);
    ASSERT_EQ(pair.b.device->alloc_mw(pair.b.pd, KeyKind::kWindow2, &window), 0);
  }
  void TearDown() override { EXPECT_EQ(pair.b.device->dealloc_mw(window), 0); }

  SendRequest bind(std::uint64_t wr_id, std::uint32_t key, std::uint8_t flags = kSendSignaled) {
    return {.wr_id = wr_id,
            .opcode = WrOpcode::kBindMw,
            .flags = flags,
            .imm_or_rkey = pair.b.mr->key,
            .remote_addr = pair.b.address(0),
            .rkey = RKey{key},
            .compare_add = kAccessRemoteWrite | kAccessRemoteRead,
            .swap = kWindowBytes};
  }
  SendRequest invalidate(std::uint64_t wr_id, std::uint8_t flags = kSendSignaled) {
    return {.wr_id = wr_id, .opcode = WrOpcode::kLocalInv, .flags = flags, .imm_or_rkey = window->key};
  }
  /// A WRITE by `from` into the other's memory.
  SendRequest write(std::uint64_t wr_id, test::Host& from, test::Host& to, std::uint32_t key) {
    element = from.sge(0, 8);
    return {.wr_id = wr_id,
            .opcode = WrOpcode::kRdmaWrite,
            .flags = kSendSignaled,
            .num_sge = 1,
            .sges = &element,
            .remote_addr = to.address(0),
            .rkey = RKey{key}};
  }
  SendRequest send_with_invalidate(std::uint64_t wr_id, std::uint32_t key) {
    element = pair.a.sge(0, 8);
    return {.wr_id = wr_id,
            .opcode = WrOpcode::kSendWithInv,
            .flags = kSendSignaled,
            .num_sge = 1,
            .sges = &element,
            .imm_or_rkey = key};
  }
  void bind_now() {
    pair.b.post(bind(1, window->key));
    pair.run();
    const auto done = pair.b.completions();
    ASSERT_EQ(done.size(), 1u);
    ASSERT_EQ(done[0].status, WcStatus::kSuccess);
    pair.log.clear();
  }

  WirePair pair;
  Mw* window = nullptr;
  Sge element{};
};

using Status = std::pair<std::uint64_t, WcStatus>;
std::vector<Status> statuses(const std::vector<Cqe>& cqes) {
  std::vector<Status> out;
  for (const Cqe& cqe : cqes) out.emplace_back(cqe.wr_id, cqe.status);
  return out;
}

TEST_F(WindowPair, bind__sends_nothing_and_opens_the_window) {
  pair.b.post(bind(1, window->key));
  pair.run();
  EXPECT_EQ(pair.log, Log{});
  const auto bound = pair.b.completions();
  ASSERT_EQ(bound.size(), 1u);
  EXPECT_EQ(bound[0].opcode, WcOpcode::kBindMw);
  EXPECT_EQ(bound[0].status, WcStatus::kSuccess);
  pair.a.memory[0] = std::byte{42};
  pair.a.post(write(2, pair.a, pair.b, window->key));
  pair.run();
  EXPECT_EQ(statuses(pair.a.completions()), (std::vector{Status{2, WcStatus::kSuccess}}));
  EXPECT_EQ(pair.b.memory[0], std::byte{42});
}

/// What is behind a bind in the queue leaves after it: the peer may use the key that it is told at once.
TEST_F(WindowPair, bind__is_done_when_the_send_behind_it_leaves) {
  pair.a.post_receive(7, pair.a.sge(100, 8));
  element = pair.b.sge(0, 8);
  ASSERT_EQ(pair.b.device->post_send(pair.b.qp, bind(1, window->key, 0)), 0);
  pair.b.post({.wr_id = 2, .opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &element});
  bool was_bound = false;
  pair.run([&](Frame& frame) {
    if (test::describe(frame).starts_with("RC_SEND")) was_bound = window->mr != nullptr;
    return true;
  });
  EXPECT_TRUE(was_bound);
  EXPECT_EQ(statuses(pair.b.completions()), (std::vector{Status{2, WcStatus::kSuccess}}));
}

/// Executed once, as soon as all before it are sent; completed in the queue's order; not again with a retransmission.
TEST_F(WindowPair, bind__behind_a_lost_write_completes_after_it_and_is_not_repeated) {
  const std::uint32_t key = window->key;
  ASSERT_EQ(pair.b.device->post_send(pair.b.qp, write(1, pair.b, pair.a, pair.a.mr->key)), 0);
  ASSERT_EQ(pair.b.device->post_send(pair.b.qp, bind(2, key)), 0);
  pair.b.post(write(3, pair.b, pair.a, pair.a.mr->key));
  bool lost = false;
  pair.run([&](Frame& frame) {
    if (lost || test::describe(frame).find("psn=100") == std::string::npos) return true;
    EXPECT_TRUE(pair.b.completions().empty());
    return !(lost = true);
  });
  EXPECT_TRUE(lost);
  // A second execution would find the window bound, and fail.
  EXPECT_EQ(statuses(pair.b.completions()),
            (std::vector{Status{1, WcStatus::kSuccess}, Status{2, WcStatus::kSuccess}, Status{3, WcStatus::kSuccess}}));
  EXPECT_EQ(window->mr, pair.b.mr);
  EXPECT_EQ(std::count(pair.log.begin(), pair.log.end(), "< RC_WRITE_ONLY psn=101 ack"), 2);
}

TEST_F(WindowPair, bind__between_a_write_and_a_read_whose_response_acknowledges_both) {
  Sge into = pair.b.sge(64, 8);
  ASSERT_EQ(pair.b.device->post_send(pair.b.qp, write(1, pair.b, pair.a, pair.a.mr->key)), 0);
  ASSERT_EQ(pair.b.device->post_send(pair.b.qp, bind(2, window->key)), 0);
  pair.b.post({.wr_id = 3,
               .opcode = WrOpcode::kRdmaRead,
               .flags = kSendSignaled,
               .num_sge = 1,
               .sges = &into,
               .remote_addr = pair.a.address(0),
               .rkey = RKey{pair.a.mr->key}});
  pair.run();
  EXPECT_EQ(pair.log.back(), "> RC_READ_RESP_ONLY psn=101 msn=2");
  EXPECT_EQ(std::count_if(pair.log.begin(), pair.log.end(), [](auto& line) { return line[0] == '>'; }), 1);
  EXPECT_EQ(statuses(pair.b.completions()),
            (std::vector{Status{1, WcStatus::kSuccess}, Status{2, WcStatus::kSuccess}, Status{3, WcStatus::kSuccess}}));
}

TEST_F(WindowPair, local_invalidate__with_a_fence_waits_for_reads) {
  bind_now();
  Sge into = pair.b.sge(512, 8);
  ASSERT_EQ(pair.b.device->post_send(pair.b.qp, {.wr_id = 1,
                                                 .opcode = WrOpcode::kRdmaRead,
                                                 .flags = kSendSignaled,
                                                 .num_sge = 1,
                                                 .sges = &into,
                                                 .remote_addr = pair.a.address(0),
                                                 .rkey = RKey{pair.a.mr->key}}),
            0);
  pair.b.post(invalidate(2, kSendSignaled | kSendFence));
  bool closed_early = false;
  pair.run([&](Frame& frame) {
    if (test::describe(frame).find("READ_RESP") != std::string::npos) closed_early = window->mr == nullptr;
    return true;
  });
  EXPECT_FALSE(closed_early);
  EXPECT_EQ(window->mr, nullptr);
  const auto done = pair.b.completions();
  EXPECT_EQ(statuses(done), (std::vector{Status{1, WcStatus::kSuccess}, Status{2, WcStatus::kSuccess}}));
  EXPECT_EQ(done.back().opcode, WcOpcode::kLocalInv);
}

TEST_F(WindowPair, local_invalidate__the_key_is_refused_at_once) {
  bind_now();
  const std::uint32_t key = window->key;
  pair.b.post(invalidate(2));
  pair.run();
  EXPECT_EQ(statuses(pair.b.completions()), (std::vector{Status{2, WcStatus::kSuccess}}));
  pair.a.post(write(3, pair.a, pair.b, key));
  pair.run();
  EXPECT_EQ(pair.log, (Log{"> RC_WRITE_ONLY psn=100 ack", "< RC_ACK psn=100 nak=2 msn=0"}));
  EXPECT_EQ(statuses(pair.a.completions()), (std::vector{Status{3, WcStatus::kRemAccessErr}}));
}

/// The WRITE was begun with the window open: what comes after its end must not be written.
TEST_F(WindowPair, dealloc__in_the_middle_of_a_write_ends_it) {
  SendRequest request = bind(1, window->key);
  request.swap = 4096;
  pair.b.post(request);
  pair.run();
  std::fill_n(pair.a.memory.begin(), 4096, std::byte{1});
  SendRequest long_write = write(2, pair.a, pair.b, window->key);
  element.length = 4096;
  pair.a.post(long_write);
  int arrived = 0;
  const std::uint32_t key = window->key;
  pair.run([&](Frame& frame) {
    if (test::describe(frame).find("WRITE") != std::string::npos && ++arrived == 3) {
      // The first two packets are executed before the third is delivered.
      pair.b.device->worker().turn(pair.now, TurnReason::kPoll);
      EXPECT_EQ(pair.b.device->dealloc_mw(window), 0);
    }
    return true;
  });
  EXPECT_EQ(statuses(pair.a.completions()), (std::vector{Status{2, WcStatus::kRemAccessErr}}));
  EXPECT_EQ(pair.b.memory[2047], std::byte{1});
  EXPECT_EQ(pair.b.memory[2048], std::byte{});
  ASSERT_EQ(pair.b.device->alloc_mw(pair.b.pd, KeyKind::kWindow2, &window), 0);
  EXPECT_NE(window->key & ~KeyTable::kTagMask, key & ~KeyTable::kTagMask);
}

/// IBTA 11.6.2: a memory management operation error; what is behind it is flushed.
TEST_F(WindowPair, bind__against_the_rules_fails_in_its_place) {
  pair.b.register_memory(kAccessLocalWrite);
  ASSERT_EQ(pair.b.device->post_send(pair.b.qp, write(1, pair.b, pair.a, pair.a.mr->key)), 0);
  ASSERT_EQ(pair.b.device->post_send(pair.b.qp, bind(2, window->key, 0)), 0);
  pair.b.post(write(3, pair.b, pair.a, pair.a.mr->key));
  pair.run();
  EXPECT_EQ(pair.log, (Log{"< RC_WRITE_ONLY psn=100 ack", "> RC_ACK psn=100 msn=1"}));
  EXPECT_EQ(statuses(pair.b.completions()), (std::vector{Status{1, WcStatus::kSuccess}, Status{2, WcStatus::kMwBindErr},
                                                         Status{3, WcStatus::kWrFlushErr}}));
  EXPECT_EQ(pair.b.qp->state(), QpState::kErr);
}

TEST_F(WindowPair, local_invalidate__of_a_region_or_an_unbound_window_fails) {
  pair.b.post(invalidate(1));
  pair.run();
  EXPECT_EQ(statuses(pair.b.completions()), (std::vector{Status{1, WcStatus::kMwBindErr}}));
}

/// Local requests have no message, so they take no credit and no number.
TEST_F(WindowPair, credits__are_not_spent_on_binds) {
  for (std::uint64_t i = 0; i < 10; ++i) {
    pair.b.post(bind(i, window->key));
    pair.b.post(invalidate(100 + i));
  }
  element = pair.b.sge(0, 8);
  for (std::uint64_t i = 0; i < 2; ++i) pair.a.post_receive(i, pair.a.sge(100, 8));
  const SendRequest send{
      .wr_id = 1000, .opcode = WrOpcode::kSend, .flags = kSendSignaled, .num_sge = 1, .sges = &element};
  for (int i = 0; i < 3; ++i) pair.b.post(send);
  pair.run();
  EXPECT_EQ(pair.b.completions().size(), 22u);
  // The third waits for a receive: by its number it is the third message, not the twenty-third.
  EXPECT_EQ(pair.log.back(), "> RC_ACK psn=102 rnr=12 msn=2");
}

TEST_F(WindowPair, send_with_invalidate__closes_the_window_and_says_so) {
  bind_now();
  const std::uint32_t key = window->key;
  pair.b.post_receive(9, pair.b.sge(1024, 8));
  pair.a.post(send_with_invalidate(2, key));
  pair.run();
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, WcStatus::kSuccess);
  EXPECT_EQ(received[0].flags & kWcWithInv, kWcWithInv);
  EXPECT_EQ(received[0].imm_or_rkey, key);
  EXPECT_EQ(window->mr, nullptr);
  EXPECT_EQ(pair.b.device->dereg_mr(pair.b.mr), 0);
  pair.b.mr = nullptr;
  pair.b.register_memory(kAccessLocalWrite);
}

TEST_F(WindowPair, send_with_invalidate__duplicate_leaves_the_next_binding_alone) {
  bind_now();
  pair.b.post_receive(9, pair.b.sge(1024, 8));
  const std::uint32_t key = window->key;
  pair.a.post(send_with_invalidate(2, key));
  bool bound_again = false;
  pair.run([&](Frame& frame) {
    if (bound_again || !test::describe(frame).starts_with("RC_ACK")) return true;
    bound_again = true;
    pair.b.post(bind(3, key));
    return false;
  });
  pair.run_next_deadline();
  EXPECT_EQ(pair.b.counters.duplicate_request, 1u);
  EXPECT_EQ(window->mr, pair.b.mr);
  EXPECT_EQ(statuses(pair.a.completions()), (std::vector{Status{2, WcStatus::kSuccess}}));
}

/// IBTA table 58, class J: the message has arrived, so its sender hears nothing of it; the receive fails, and its QP.
TEST_F(WindowPair, send_with_invalidate__of_a_key_that_is_not_the_peers_fails_the_receiver_only) {
  for (const bool names_a_region : {true, false}) {
    WirePair fresh;
    const std::uint32_t key = names_a_region ? fresh.b.mr->key : 0x1234;
    fresh.b.post_receive(9, fresh.b.sge(1024, 8));
    fresh.b.post_receive(10, fresh.b.sge(1024, 8));
    const SendRequest request = send_with_invalidate(2, key);
    element = fresh.a.sge(0, 8);
    fresh.a.post(request);
    fresh.run();
    EXPECT_EQ(fresh.log, (Log{"> RC_SEND_ONLY_INV psn=100 ack", "< RC_ACK psn=100 msn=1"}));
    EXPECT_EQ(statuses(fresh.a.completions()), (std::vector{Status{2, WcStatus::kSuccess}}));
    EXPECT_EQ(statuses(fresh.b.completions()),
              (std::vector{Status{9, WcStatus::kRemInvReqErr}, Status{10, WcStatus::kWrFlushErr}}));
    EXPECT_EQ(fresh.b.qp->state(), QpState::kErr);
    EXPECT_EQ(fresh.b.counters.resp_remote_invalidate_errors, 1u);
    EXPECT_EQ(fresh.b.events.async.back().type, AsyncEventType::kQpAccessErr);
  }
}

/// A stale duplicate of a READ that was answered long ago does no harm, though its key has gone.
TEST_F(WindowPair, read__duplicate_whose_answer_waits_while_its_key_goes_is_dropped) {
  bind_now();
  Frame request;
  Sge into = pair.a.sge(64, 8);
  pair.a.post({.wr_id = 2,
               .opcode = WrOpcode::kRdmaRead,
               .flags = kSendSignaled,
               .num_sge = 1,
               .sges = &into,
               .remote_addr = pair.b.address(0),
               .rkey = RKey{window->key}});
  pair.run([&](Frame& frame) {
    if (test::describe(frame).starts_with("RC_READ_REQUEST")) request = frame;
    return true;
  });
  ASSERT_EQ(statuses(pair.a.completions()), (std::vector{Status{2, WcStatus::kSuccess}}));
  pair.log.clear();
  pair.b.port.room_frames = 0;
  pair.b.port.arrived.push_back(request);
  pair.b.device->worker().turn(pair.now, TurnReason::kPoll);
  ASSERT_EQ(pair.b.counters.duplicate_request, 1u);
  ASSERT_EQ(pair.b.device->dealloc_mw(window), 0);
  ASSERT_EQ(pair.b.device->alloc_mw(pair.b.pd, KeyKind::kWindow2, &window), 0);
  pair.b.port.room_frames = 64;
  pair.run();
  EXPECT_EQ(pair.log, Log{});
  EXPECT_EQ(pair.b.qp->state(), QpState::kRts);
  EXPECT_EQ(pair.b.counters.tx_naks, 0u);
}

TEST_F(WindowPair, region__with_a_window_is_busy) {
  bind_now();
  const std::uint32_t access = kAccessLocalWrite;
  EXPECT_EQ(pair.b.device->dereg_mr(pair.b.mr), EBUSY);
  EXPECT_EQ(pair.b.device->rereg_mr(pair.b.mr, nullptr, nullptr, &access), EBUSY);
  EXPECT_EQ(pair.b.mr->access, kAccessLocalWrite | kAccessMwBind);
}

TEST_F(WindowPair, destroy_qp__unbinds_what_was_bound_through_it) {
  bind_now();
  ASSERT_EQ(pair.b.device->destroy_qp(pair.b.qp), 0);
  pair.b.qp = nullptr;
  EXPECT_EQ(window->mr, nullptr);
}

TEST(WindowLimits, alloc_mw__as_many_as_the_device_says) {
  DeviceConfig config;
  config.limits.max_mw = 2;
  test::Host host(0, config);
  Mw* windows[3] = {};
  EXPECT_EQ(host.device->alloc_mw(host.pd, KeyKind::kWindow1, &windows[0]), 0);
  EXPECT_EQ(host.device->alloc_mw(host.pd, KeyKind::kWindow2, &windows[1]), 0);
  EXPECT_EQ(host.device->alloc_mw(host.pd, KeyKind::kWindow2, &windows[2]), ENOMEM);
  EXPECT_EQ(host.device->dealloc_mw(windows[0]), 0);
  EXPECT_EQ(host.device->alloc_mw(host.pd, KeyKind::kWindow2, &windows[2]), 0);
  EXPECT_EQ(host.device->dealloc_pd(host.pd), EBUSY);
  EXPECT_EQ(host.device->dealloc_mw(windows[1]), 0);
  EXPECT_EQ(host.device->dealloc_mw(windows[2]), 0);
}

}  // namespace
}  // namespace roci
