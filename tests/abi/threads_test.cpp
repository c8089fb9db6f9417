// Verbs may be called from any thread, on any object, at any time.
#include <atomic>
#include <thread>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

class Threads : public Connected {
 protected:
  ibv_send_wr write_request(std::uint64_t wr_id, ibv_sge* sge) {
    ibv_send_wr wr = send_request(wr_id, sge, 1);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {.remote_addr = remote.address(), .rkey = remote.mr->rkey};
    return wr;
  }
  int send_queue_size() const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(local.qp.get(), &attr, IBV_QP_CAP, &init), 0);
    return static_cast<int>(init.cap.max_send_wr);
  }
  /// Posts, waiting for room.
  void post_patiently(std::uint64_t wr_id) {
    ibv_sge sge = local.sge(64);
    ibv_send_wr wr = write_request(wr_id, &sge);
    int error = ENOMEM;
    while (error == ENOMEM) {
      error = local.post(wr);
      if (error == ENOMEM) std::this_thread::yield();
    }
    EXPECT_EQ(error, 0);
  }
};

/// The CQ holds no more than the QP may have outstanding: posters that fill the queue as soon as there is room must not
/// overrun it.
TEST_F(Threads, post_and_poll__each_request_completes_once) {
  constexpr std::uint64_t kPerThread = 500;
  constexpr std::uint64_t kPosters = 2;
  constexpr std::uint64_t kTotal = kPerThread * kPosters;
  ASSERT_EQ(ibv_resize_cq(local.cq.get(), send_queue_size()), 0);
  std::vector<std::atomic<int>> seen(kTotal);
  std::atomic<std::uint64_t> count = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t poster = 0; poster < kPosters; ++poster)
    threads.emplace_back([&, poster] {
      for (std::uint64_t i = 0; i < kPerThread; ++i) post_patiently(poster * kPerThread + i);
    });
  for (int poller = 0; poller < 2; ++poller)
    threads.emplace_back([&] {
      while (count < kTotal) {
        ibv_wc wc{};
        if (ibv_poll_cq(local.cq.get(), 1, &wc) != 1) continue;
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        ++seen[wc.wr_id];
        ++count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& times : seen) EXPECT_EQ(times, 1);
}

TEST_F(Threads, control__beside_traffic) {
  std::atomic<bool> stop = false;
  std::thread maker([&] {
    std::vector<std::uint8_t> memory(4096);
    while (!stop) {
      const Mr mr = make_mr(memory.data(), memory.size());
      const Cq cq = make_cq(4);
      const Qp qp = make_qp(small_rc(cq.get()));
      bring_up(qp.get(), IBV_QPS_RTS);
      EXPECT_EQ(ibv_resize_cq(cq.get(), 8), 0);
    }
  });
  for (std::uint64_t i = 0; i < 300; ++i) {
    post_patiently(i);
    EXPECT_EQ(local.next_status(), IBV_WC_SUCCESS);
  }
  stop = true;
  maker.join();
}

TEST_F(Threads, events__one_thread_waits_and_another_posts) {
  constexpr int kTotal = 200;
  const int room = send_queue_size();
  const Channel channel(ibv_create_comp_channel(context()));
  ASSERT_NE(channel, nullptr);
  const Cq cq = make_cq(room, channel.get());
  ibv_qp_init_attr init = small_rc(cq.get());
  local.qp = make_qp(init);
  bring_up(local.qp.get(), IBV_QPS_RTS, remote.qp->qp_num);
  ASSERT_EQ(move_to(remote.qp.get(), IBV_QPS_RESET), 0);
  bring_up(remote.qp.get(), IBV_QPS_RTS, local.qp->qp_num);
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
  std::thread waiter([&] {
    for (int done = 0; done < kTotal;) {
      ibv_cq* of = nullptr;
      void* cq_context = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel.get(), &of, &cq_context), 0);
      ibv_ack_cq_events(of, 1);
      ASSERT_EQ(ibv_req_notify_cq(of, 0), 0);
      ibv_wc wc{};
      while (ibv_poll_cq(of, 1, &wc) == 1) {
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        ++done;
      }
    }
  });
  for (int i = 0; i < kTotal; ++i) post_patiently(static_cast<std::uint64_t>(i));
  waiter.join();
  local.qp.reset();
}

TEST(ThreadsOfDevices, open_device__from_several_at_once) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int round = 0; round < 5; ++round) {
        const Context context = open_device();
        ASSERT_NE(context, nullptr);
        EXPECT_EQ(error_of<Pd>([&] { return ibv_alloc_pd(context.get()); }), 0);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace roci::abi
