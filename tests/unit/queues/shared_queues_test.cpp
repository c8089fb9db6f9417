// Queues that several workers use at a time: a CQ has a ring for each, a shared receive queue hands out each WQE once.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "stack/queues/completion_queue.h"
#include "stack/queues/recv_queue.h"
#include "stack/queues/send_queue.h"

namespace roci {
namespace {

constexpr std::uint32_t kWorkers = 3;
constexpr std::uint32_t kEach = 20'000;

std::vector<Cqe> poll_all(Cq& cq) {
  std::vector<Cqe> found;
  std::array<Cqe, 4> out;
  for (std::size_t n = cq.poll(out); n > 0; n = cq.poll(out)) found.insert(found.end(), out.begin(), out.begin() + n);
  return found;
}

/// A CQ on which workers 0 to kWorkers - 1 complete.
std::unique_ptr<Cq> make_cq(std::uint32_t capacity) {
  auto cq = std::make_unique<Cq>(capacity, nullptr);
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) cq->admit(worker);
  return cq;
}

TEST(SharedCq, poll__has_what_every_worker_completed_and_that_of_one_in_order) {
  const auto cq = make_cq(64);
  std::atomic<std::uint32_t> left{kWorkers};
  std::vector<std::thread> threads;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker)
    threads.emplace_back([&, worker] {
      for (std::uint32_t i = 0; i < kEach;)
        if (cq->push({.wr_id = i, .qpn = Qpn{worker}}, worker))
          ++i;
        else
          std::this_thread::yield();
      --left;
    });
  std::array<std::uint64_t, kWorkers> next{};
  for (bool over = false; !over;) {
    over = left == 0;
    for (const Cqe& cqe : poll_all(*cq)) {
      over = false;
      ASSERT_EQ(cqe.wr_id, next[cqe.qpn.value]++);
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(next, (std::array<std::uint64_t, kWorkers>{kEach, kEach, kEach}));
}

TEST(SharedCq, poll__no_worker_waits_behind_a_busy_one) {
  const auto cq = make_cq(8);
  std::array<Cqe, 1> out;
  cq->push({.qpn = Qpn{2}}, 2);
  std::uint32_t polls = 0;
  do {
    cq->push({.qpn = Qpn{0}}, 0);
    ASSERT_EQ(cq->poll(out), 1u);
  } while (out[0].qpn != Qpn{2} && ++polls < 100);
  EXPECT_LT(polls, kMaxWorkers);
}

TEST(SharedCq, push__what_fits_is_never_lost_whoever_completes_it) {
  const auto cq = make_cq(5);
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_TRUE(cq->push({}, 1));
  EXPECT_FALSE(cq->push({}, 1));
  EXPECT_TRUE(cq->push({}, 2));
  EXPECT_TRUE(cq->mark_overrun());
  EXPECT_FALSE(cq->mark_overrun());
}

TEST(SharedCq, take_event__one_for_one_request_whichever_workers_complete) {
  const auto cq = make_cq(8);
  for (int round = 0; round < 300; ++round) {
    cq->request_notify(false);
    std::atomic<int> events{0};
    std::atomic<std::uint32_t> ready{0};
    std::vector<std::thread> threads;
    for (std::uint32_t worker = 0; worker < 2; ++worker)
      threads.emplace_back([&, worker] {
        ++ready;
        while (ready < 2) std::this_thread::yield();
        cq->push({}, worker);
        if (cq->take_event(worker)) ++events;
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(events, 1);
    ASSERT_EQ(poll_all(*cq).size(), 2u);
  }
}

TEST(SharedCq, resize_discard_and_forget__concern_all_workers) {
  const auto cq = make_cq(4);
  SendQueue gone(4, 1, 0, true);
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker)
    for (const std::uint32_t qpn : {7u, 8u})
      cq->push({.wr_id = worker, .qpn = Qpn{qpn}, .sq_free_end = 1, .sq = &gone}, worker);
  EXPECT_FALSE(cq->resize(5));
  EXPECT_TRUE(cq->resize(6));
  cq->discard(Qpn{7});
  cq->forget(gone);
  const std::vector<Cqe> left = poll_all(*cq);
  ASSERT_EQ(left.size(), kWorkers);
  for (const Cqe& cqe : left) {
    EXPECT_EQ(cqe.qpn, Qpn{8});
    EXPECT_EQ(cqe.sq, nullptr);
  }
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_TRUE(cq->push({}, 2));
  EXPECT_FALSE(cq->push({}, 2));
}

/// Room for the WQE that take() copies.
struct Copy {
  explicit Copy(const RecvQueue& queue) : memory(queue.stride() / sizeof(std::uint64_t) + 1) {}
  RecvWqe* wqe() { return reinterpret_cast<RecvWqe*>(memory.data()); }
  std::vector<std::uint64_t> memory;
};

/// A WQE whose fields belong together.
int post_numbered(RecvQueue& queue, std::uint64_t number) {
  const std::array<Sge, 2> sges{{{number * 3, 10, LKey{1}}, {number * 5, 20, LKey{2}}}};
  return queue.post({.wr_id = number, .num_sge = 2, .sges = sges.data()});
}

TEST(SharedRecvQueue, take__each_wqe_whole_and_to_one_worker) {
  RecvQueue queue(7, 2);
  queue.share();
  constexpr std::uint64_t kAll = kWorkers * kEach;
  std::vector<std::atomic<std::uint8_t>> taken(kAll);
  std::atomic<std::uint64_t> left{kAll};
  std::atomic<std::uint64_t> torn{0};
  std::vector<std::thread> threads;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker)
    threads.emplace_back([&] {
      Copy copy(queue);
      while (left != 0) {
        if (!queue.take(copy.wqe())) {
          std::this_thread::yield();
          continue;
        }
        const RecvWqe& wqe = *copy.wqe();
        const bool whole = wqe.total_bytes == 30 && wqe.sges()[0].addr == wqe.wr_id * 3 &&
                           wqe.sges()[1].addr == wqe.wr_id * 5 && wqe.wr_id < kAll;
        torn += whole ? 0 : 1;
        if (whole) ++taken[wqe.wr_id];
        --left;
      }
    });
  for (std::uint64_t i = 0; i < kAll;) {
    const int error = post_numbered(queue, i);
    if (error == 0)
      ++i;
    else
      std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0u);
  for (std::uint64_t i = 0; i < kAll; ++i) ASSERT_EQ(taken[i], 1) << i;
  EXPECT_EQ(queue.size(), 0u);
}

TEST(SharedRecvQueue, take__in_the_order_of_posting_across_the_wrap) {
  RecvQueue queue(3, 2);
  queue.share();
  Copy copy(queue);
  EXPECT_FALSE(queue.take(copy.wqe()));
  for (std::uint64_t i = 0; i < 50; ++i) {
    for (std::uint64_t j = 0; j < 3; ++j) ASSERT_EQ(post_numbered(queue, 3 * i + j), 0);
    EXPECT_EQ(post_numbered(queue, 0), ENOMEM);
    for (std::uint64_t j = 0; j < 3; ++j) {
      ASSERT_TRUE(queue.take(copy.wqe()));
      EXPECT_EQ(copy.wqe()->wr_id, 3 * i + j);
    }
    EXPECT_FALSE(queue.take(copy.wqe()));
  }
}

}  // namespace
}  // namespace roci
