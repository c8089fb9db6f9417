#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

bool is_readable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & POLLIN) != 0;
}

bool becomes_readable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 60'000) == 1 && (entry.revents & POLLIN) != 0;
}

void make_nonblocking(int fd) { ASSERT_NE(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), -1); }

class Events : public Client {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Client::SetUp());
    channel_.reset(ibv_create_comp_channel(context()));
    ASSERT_NE(channel_, nullptr);
  }

  int fd() { return channel_->fd; }
  /// One completion, in error, so that any armed CQ raises an event.
  void complete_one(ibv_cq* cq) {
    const Qp qp = make_qp(small_rc(cq));
    bring_up(qp.get(), IBV_QPS_INIT);
    ibv_recv_wr wr = receive_request(1, nullptr, 0);
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp.get(), &wr, &bad), 0);
    ASSERT_EQ(move_to(qp.get(), IBV_QPS_ERR), 0);
    ASSERT_EQ(wait_for_completions(cq, 1).size(), 1u);
  }
  Cq cq_with_event() {
    Cq cq = make_cq(8, channel_.get());
    EXPECT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    complete_one(cq.get());
    return cq;
  }
  ibv_cq* take_event() {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    return ibv_get_cq_event(channel_.get(), &cq, &cq_context) == 0 ? cq : nullptr;
  }

  Channel channel_;
};

class ShimEvents : public Events {};

TEST_F(Events, destroy_comp_channel__in_use_is_busy) {
  const Cq cq = make_cq(4, channel_.get());
  EXPECT_EQ(channel_->refcnt, 1);
  EXPECT_EQ(ibv_destroy_comp_channel(channel_.get()), EBUSY);
}

TEST_F(Events, get_cq_event__none_and_nonblocking_is_again) {
  make_nonblocking(fd());
  EXPECT_FALSE(is_readable(fd()));
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  EXPECT_EQ(error_of_minus_1([&] { return ibv_get_cq_event(channel_.get(), &cq, &cq_context); }), EAGAIN);
}

TEST_F(Events, get_cq_event__descriptor_is_readable_while_one_is_queued) {
  int mark = 0;
  const Cq cq(ibv_create_cq(context(), 8, &mark, channel_.get(), 0));
  ASSERT_NE(cq, nullptr);
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
  complete_one(cq.get());
  ASSERT_TRUE(becomes_readable(fd()));
  ibv_cq* of = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_.get(), &of, &cq_context), 0);
  EXPECT_EQ(of, cq.get());
  EXPECT_EQ(cq_context, &mark);
  EXPECT_FALSE(is_readable(fd()));
  ibv_ack_cq_events(cq.get(), 1);
}

TEST_F(Events, req_notify_cq__one_event_for_one_request) {
  const Cq cq = cq_with_event();
  ASSERT_TRUE(becomes_readable(fd()));
  EXPECT_EQ(take_event(), cq.get());
  ibv_ack_cq_events(cq.get(), 1);
  complete_one(cq.get());
  EXPECT_FALSE(is_readable(fd()));
}

TEST_F(Events, req_notify_cq__solicited_only_hears_of_errors) {
  const Cq cq = make_cq(8, channel_.get());
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 1), 0);
  complete_one(cq.get());
  ASSERT_TRUE(becomes_readable(fd()));
  EXPECT_EQ(take_event(), cq.get());
  ibv_ack_cq_events(cq.get(), 1);
}

TEST_F(Events, destroy_cq__forgets_events_not_fetched) {
  make_nonblocking(fd());
  cq_with_event();
  EXPECT_FALSE(is_readable(fd()));
  EXPECT_EQ(take_event(), nullptr);
}

TEST_F(Events, destroy_cq__forgets_its_own_events_only) {
  const Cq kept = cq_with_event();
  cq_with_event();
  ASSERT_TRUE(becomes_readable(fd()));
  EXPECT_EQ(take_event(), kept.get());
  EXPECT_FALSE(is_readable(fd()));
  ibv_ack_cq_events(kept.get(), 1);
}

TEST_F(Events, destroy_cq__waits_for_acknowledgement) {
  Cq cq = cq_with_event();
  ibv_cq* raw = cq.release();
  ASSERT_EQ(take_event(), raw);
  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_cq(raw), 0);
    destroyed = true;
  });
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(destroyed);
  ibv_ack_cq_events(raw, 1);
  destroyer.join();
}

TEST_F(Events, get_cq_event__blocks_until_there_is_one) {
  const Cq cq = make_cq(8, channel_.get());
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
  std::atomic<ibv_cq*> got = nullptr;
  std::thread waiter([&] { got = take_event(); });
  complete_one(cq.get());
  waiter.join();
  EXPECT_EQ(got, cq.get());
  ibv_ack_cq_events(cq.get(), 1);
}

TEST_F(Events, get_async_event__none_and_nonblocking_is_again) {
  make_nonblocking(context()->async_fd);
  ibv_async_event event{};
  EXPECT_EQ(error_of_minus_1([&] { return ibv_get_async_event(context(), &event); }), EAGAIN);
}

/// A QP on an SRQ that goes to ERR raises LAST_WQE_REACHED (IBTA 10.3.1.6).
class ShimAsyncEvents : public Client {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Client::SetUp());
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    srq_.reset(ibv_create_srq(pd(), &attr));
    ASSERT_NE(srq_, nullptr);
    cq_ = make_cq();
    ibv_qp_init_attr init = small_rc(cq_.get());
    init.srq = srq_.get();
    qp_ = make_qp(init);
    ASSERT_NE(qp_, nullptr);
    bring_up(qp_.get(), IBV_QPS_RTS);
  }
  void raise() { ASSERT_EQ(move_to(qp_.get(), IBV_QPS_ERR), 0); }

  Srq srq_;
  Cq cq_;
  Qp qp_;
};

TEST_F(ShimAsyncEvents, get_async_event__names_the_qp) {
  raise();
  ASSERT_TRUE(becomes_readable(context()->async_fd));
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(event.element.qp, qp_.get());
  EXPECT_FALSE(is_readable(context()->async_fd));
  ibv_ack_async_event(&event);
}

TEST_F(ShimAsyncEvents, get_async_event__blocks_until_there_is_one) {
  std::atomic<ibv_qp*> got = nullptr;
  std::thread waiter([&] {
    ibv_async_event event{};
    EXPECT_EQ(ibv_get_async_event(context(), &event), 0);
    got = event.element.qp;
    ibv_ack_async_event(&event);
  });
  raise();
  waiter.join();
  EXPECT_EQ(got, qp_.get());
}

TEST_F(ShimAsyncEvents, destroy_qp__forgets_events_not_fetched) {
  raise();
  ASSERT_TRUE(becomes_readable(context()->async_fd));
  qp_.reset();
  EXPECT_FALSE(is_readable(context()->async_fd));
}

TEST_F(ShimAsyncEvents, destroy_qp__waits_for_acknowledgement) {
  raise();
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context(), &event), 0);
  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    qp_.reset();
    destroyed = true;
  });
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(destroyed);
  ibv_ack_async_event(&event);
  destroyer.join();
}

TEST_F(ShimAsyncEvents, get_async_event__goes_to_the_context_of_the_object) {
  const Context other = open_device();
  make_nonblocking(other->async_fd);
  raise();
  ASSERT_TRUE(becomes_readable(context()->async_fd));
  EXPECT_FALSE(is_readable(other->async_fd));
}

TEST_F(ShimEvents, get_async_event__full_cq_is_told) {
  const Cq cq = make_cq(1);
  const Qp qp = make_qp(small_rc(cq.get()));
  bring_up(qp.get(), IBV_QPS_INIT);
  for (int i = 0; i < 4; ++i) {
    ibv_recv_wr wr = receive_request(1, nullptr, 0);
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp.get(), &wr, &bad), 0);
  }
  ASSERT_EQ(move_to(qp.get(), IBV_QPS_ERR), 0);
  ASSERT_TRUE(becomes_readable(context()->async_fd));
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, cq.get());
  ibv_ack_async_event(&event);
}

}  // namespace
}  // namespace roci::abi
