// Send and receive queues: limits exactly as granted, contents as posted.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "stack/queues/recv_queue.h"
#include "stack/queues/send_queue.h"

namespace roci {
namespace {

TEST(SendQueue, post__takes_exactly_max_wr) {
  SendQueue sq(3, 1, 0, false);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(sq.post({.wr_id = i}), 0);
  EXPECT_EQ(sq.post({.wr_id = 3}), ENOMEM);
  EXPECT_EQ(sq.at(sq.head()).wr_id, 0u);
  sq.reclaim(1);
  EXPECT_EQ(sq.post({.wr_id = 3}), 0);
  EXPECT_EQ(sq.at(sq.tail() - 1).wr_id, 3u);
}

TEST(SendQueue, pop__alone_makes_no_room) {
  SendQueue sq(2, 1, 0, false);
  for (std::uint64_t i = 0; i < 2; ++i) ASSERT_EQ(sq.post({.wr_id = i}), 0);
  sq.pop();
  sq.pop();
  EXPECT_EQ(sq.outstanding(), 0u);
  EXPECT_EQ(sq.post({}), ENOMEM);
  sq.clear();
  EXPECT_EQ(sq.post({}), 0);
}

TEST(SendQueue, post_all__takes_all_or_none) {
  SendQueue sq(4, 1, 0, false);
  const std::array<SendRequest, 3> good{{{.wr_id = 1}, {.wr_id = 2}, {.wr_id = 3}}};
  const std::array<Sge, 2> two_elements{};
  const std::array<SendRequest, 2> bad{{{.wr_id = 8}, {.num_sge = 2, .sges = two_elements.data()}}};
  EXPECT_EQ(sq.post_all(bad), EINVAL);
  EXPECT_EQ(sq.outstanding(), 0u);
  ASSERT_EQ(sq.post_all(good), 0);
  for (std::uint32_t i = 0; i < good.size(); ++i) EXPECT_EQ(sq.at(i).wr_id, good[i].wr_id);
  EXPECT_EQ(sq.post_all(good), ENOMEM);
  EXPECT_EQ(sq.outstanding(), 3u);
}

TEST(SendQueue, post__refuses_too_many_elements_and_too_long_messages) {
  SendQueue sq(4, 2, 8, false);
  const std::array<Sge, 3> sges{
      {{.addr = 0, .length = 1u << 31, .lkey = {}}, {.addr = 0, .length = 1, .lkey = {}}, {}}};
  EXPECT_EQ(sq.post({.num_sge = 3, .sges = sges.data()}), EINVAL);
  EXPECT_EQ(sq.post({.num_sge = 2, .sges = sges.data()}), EINVAL);
  EXPECT_EQ(sq.post({.num_sge = 1, .sges = sges.data()}), 0);
  EXPECT_EQ(sq.at(sq.head()).length, 1u << 31);
}

TEST(SendQueue, post__inline_data_is_copied_at_once_and_bounded) {
  SendQueue sq(2, 2, 16, false);
  std::array<char, 10> first{"012345678"};
  std::array<char, 7> second{"abcdef"};
  const std::array<Sge, 2> sges{{{.addr = reinterpret_cast<std::uint64_t>(first.data()), .length = 10, .lkey = {}},
                                 {.addr = reinterpret_cast<std::uint64_t>(second.data()), .length = 6, .lkey = {}}}};
  ASSERT_EQ(sq.post({.flags = kSendInline, .num_sge = 2, .sges = sges.data()}), 0);
  first.fill('x');
  second.fill('x');
  EXPECT_EQ(std::memcmp(sq.at(sq.head()).inline_data(), "012345678\0abcdef", 16), 0);
  const std::array<Sge, 2> longer{{sges[0], {.addr = sges[1].addr, .length = 7, .lkey = {}}}};
  EXPECT_EQ(sq.post({.flags = kSendInline, .num_sge = 2, .sges = longer.data()}), EINVAL);
}

TEST(SendQueue, post__signal_all_signals_each) {
  SendQueue sq(1, 1, 0, true);
  ASSERT_EQ(sq.post({}), 0);
  EXPECT_NE(sq.at(sq.head()).flags & kSendSignaled, 0);
}

TEST(RecvQueue, post__takes_exactly_max_wr_and_max_sge) {
  RecvQueue rq(2, 1);
  const std::array<Sge, 2> sges{{{.addr = 1, .length = 5, .lkey = {}}, {.addr = 2, .length = 6, .lkey = {}}}};
  EXPECT_EQ(rq.front(), nullptr);
  EXPECT_EQ(rq.post({.wr_id = 1, .num_sge = 2, .sges = sges.data()}), EINVAL);
  EXPECT_EQ(rq.post({.wr_id = 2, .num_sge = 1, .sges = sges.data()}), 0);
  EXPECT_EQ(rq.post({.wr_id = 3}), 0);
  EXPECT_EQ(rq.post({.wr_id = 4}), ENOMEM);
  ASSERT_NE(rq.front(), nullptr);
  EXPECT_EQ(rq.front()->wr_id, 2u);
  EXPECT_EQ(rq.front()->total_bytes, 5u);
  rq.pop();
  EXPECT_EQ(rq.front()->wr_id, 3u);
  EXPECT_EQ(rq.size(), 1u);
}

TEST(RecvQueue, post__length_of_many_large_elements_does_not_wrap) {
  RecvQueue rq(1, 4);
  std::array<Sge, 4> sges;
  sges.fill({.addr = 0, .length = 0x8000'0000, .lkey = {}});
  ASSERT_EQ(rq.post({.num_sge = 4, .sges = sges.data()}), 0);
  EXPECT_EQ(rq.front()->total_bytes, UINT32_MAX);
}

}  // namespace
}  // namespace roci
