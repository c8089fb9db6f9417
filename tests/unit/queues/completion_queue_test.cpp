#include "stack/queues/completion_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "stack/queues/send_queue.h"

namespace roci {
namespace {

Cqe numbered(std::uint64_t wr_id) { return {.wr_id = wr_id}; }

TEST(CompletionQueue, poll__takes_oldest_first_across_the_wrap) {
  Cq cq(3, nullptr);
  std::uint64_t pushed = 0;
  std::uint64_t taken = 0;
  std::array<Cqe, 2> out;
  for (int round = 0; round < 50; ++round) {
    while (cq.push(numbered(pushed))) ++pushed;
    const std::size_t count = cq.poll(out);
    ASSERT_EQ(count, 2u);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(out[i].wr_id, taken++);
  }
}

TEST(CompletionQueue, push__refuses_beyond_the_exact_capacity) {
  Cq cq(5, nullptr);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(cq.push(numbered(i)));
  EXPECT_FALSE(cq.push(numbered(5)));
}

TEST(CompletionQueue, poll__frees_the_slots_of_send_queues) {
  Cq cq(8, nullptr);
  SendQueue sq(3, 1, 0, false);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(sq.post({.wr_id = i}), 0);
  for (int i = 0; i < 3; ++i) sq.pop();
  cq.push({.wr_id = 1, .sq_free_end = 2, .sq = &sq});  // the one before it was not signalled
  cq.push({.wr_id = 2, .sq_free_end = 3, .sq = &sq});
  EXPECT_EQ(sq.post({}), ENOMEM);
  std::array<Cqe, 1> out;
  ASSERT_EQ(cq.poll(out), 1u);
  EXPECT_EQ(sq.post({}), 0);
  EXPECT_EQ(sq.post({}), 0);
  EXPECT_EQ(sq.post({}), ENOMEM);
}

TEST(CompletionQueue, forget__leaves_the_entries_and_no_way_to_the_queue) {
  Cq cq(8, nullptr);
  SendQueue kept(1, 1, 0, false);
  ASSERT_EQ(kept.post({}), 0);
  std::array<Cqe, 2> out;
  {
    SendQueue gone(1, 1, 0, false);
    cq.push({.wr_id = 1, .sq_free_end = 1, .sq = &gone});
    cq.push({.wr_id = 2, .sq_free_end = 1, .sq = &kept});
    cq.forget(gone);
  }
  ASSERT_EQ(cq.poll(out), 2u);
  EXPECT_EQ(out[0].wr_id, 1u);
  EXPECT_EQ(out[0].sq, nullptr);
  EXPECT_EQ(out[1].sq, &kept);
  EXPECT_EQ(kept.post({}), 0);
}

TEST(CompletionQueue, discard__drops_the_entries_of_one_queue_pair_and_keeps_the_order_of_the_rest) {
  Cq cq(4, nullptr);
  std::array<Cqe, 4> out;
  // Past the end of the ring.
  for (int i = 0; i < 3; ++i) cq.push(numbered(i));
  ASSERT_EQ(cq.poll(out), 3u);
  for (std::uint32_t i = 0; i < 4; ++i) cq.push({.wr_id = i, .qpn = Qpn{7 + i % 2}});
  cq.discard(Qpn{7});
  EXPECT_TRUE(cq.push({.wr_id = 4, .qpn = Qpn{7}}));
  ASSERT_EQ(cq.poll(out), 3u);
  EXPECT_EQ(out[0].wr_id, 1u);
  EXPECT_EQ(out[1].wr_id, 3u);
  EXPECT_EQ(out[2].wr_id, 4u);
}

TEST(CompletionQueue, take_event__only_once_for_one_request) {
  Cq cq(8, nullptr);
  cq.push(numbered(0));
  EXPECT_FALSE(cq.take_event());
  cq.request_notify(false);
  cq.push(numbered(1));
  EXPECT_TRUE(cq.take_event());
  cq.push(numbered(2));
  EXPECT_FALSE(cq.take_event());
}

TEST(CompletionQueue, take_event__solicited_request_waits_for_solicited_or_error) {
  Cq cq(8, nullptr);
  cq.request_notify(true);
  cq.push(numbered(0));
  EXPECT_FALSE(cq.take_event());
  cq.push({.wr_id = 1, .solicited = true});
  EXPECT_TRUE(cq.take_event());
  cq.request_notify(true);
  cq.push({.wr_id = 2, .status = WcStatus::kWrFlushErr});
  EXPECT_TRUE(cq.take_event());
}

TEST(CompletionQueue, request_notify__any_is_not_weakened_by_solicited) {
  Cq cq(8, nullptr);
  cq.request_notify(false);
  cq.request_notify(true);
  cq.push(numbered(0));
  EXPECT_TRUE(cq.take_event());
}

TEST(CompletionQueue, resize__keeps_what_waits_and_refuses_to_lose_it) {
  Cq cq(4, nullptr);
  std::array<Cqe, 8> out;
  for (int i = 0; i < 3; ++i) cq.push(numbered(i));
  ASSERT_EQ(cq.poll({out.data(), 1}), 1u);
  for (int i = 3; i < 5; ++i) cq.push(numbered(i));
  EXPECT_FALSE(cq.resize(3));
  EXPECT_TRUE(cq.resize(9));
  EXPECT_EQ(cq.capacity(), 9u);
  ASSERT_EQ(cq.poll(out), 4u);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(out[i].wr_id, i + 1);
}

}  // namespace
}  // namespace roci
