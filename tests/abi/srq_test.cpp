#include "tests/abi/client.h"

namespace roci::abi {
namespace {

class SharedReceiveQueue : public Client {
 protected:
  int create_error(std::uint32_t max_wr, std::uint32_t max_sge, std::uint32_t limit = 0) {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = max_wr, .max_sge = max_sge, .srq_limit = limit};
    return error_of<Srq>([&] { return ibv_create_srq(pd(), &attr); });
  }
  Srq make(std::uint32_t max_wr = 4, std::uint32_t max_sge = 2) {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = max_wr, .max_sge = max_sge, .srq_limit = 0};
    Srq srq(ibv_create_srq(pd(), &attr));
    EXPECT_NE(srq, nullptr);
    EXPECT_GE(attr.attr.max_wr, max_wr);
    EXPECT_GE(attr.attr.max_sge, max_sge);
    return srq;
  }
  static int modify(ibv_srq* srq, std::uint32_t limit, int mask = IBV_SRQ_LIMIT) {
    ibv_srq_attr attr{.max_wr = 0, .max_sge = 0, .srq_limit = limit};
    return ibv_modify_srq(srq, &attr, mask);
  }
  static ibv_srq_attr query(ibv_srq* srq) {
    ibv_srq_attr attr{};
    EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
    return attr;
  }
};

class ShimSharedReceiveQueue : public SharedReceiveQueue {};

TEST_F(SharedReceiveQueue, create_srq__beyond_the_limits_is_invalid) {
  EXPECT_EQ(create_error(0, 1), EINVAL);
  EXPECT_EQ(create_error(static_cast<std::uint32_t>(limits().max_srq_wr) + 1, 1), EINVAL);
  EXPECT_EQ(create_error(4, static_cast<std::uint32_t>(limits().max_srq_sge) + 1), EINVAL);
}

TEST_F(SharedReceiveQueue, create_srq__at_the_limits) {
  EXPECT_EQ(create_error(4, static_cast<std::uint32_t>(limits().max_srq_sge)), 0);
  EXPECT_EQ(create_error(static_cast<std::uint32_t>(limits().max_srq_wr), 1), 0);
}

TEST_F(SharedReceiveQueue, modify_srq__limit_is_read_back) {
  const Srq srq = make();
  EXPECT_EQ(query(srq.get()).srq_limit, 0u);
  EXPECT_EQ(modify(srq.get(), 2), 0);
  EXPECT_EQ(query(srq.get()).srq_limit, 2u);
}

TEST_F(ShimSharedReceiveQueue, modify_srq__refused_changes_nothing) {
  const Srq srq = make();
  ASSERT_EQ(modify(srq.get(), 2), 0);
  const std::uint32_t max_wr = query(srq.get()).max_wr;
  EXPECT_EQ(modify(srq.get(), max_wr + 1), EINVAL);
  EXPECT_EQ(modify(srq.get(), 1, 1 << 10), EINVAL);
  EXPECT_EQ(query(srq.get()).srq_limit, 2u);
}

TEST_F(SharedReceiveQueue, modify_srq__new_size_only_where_the_device_says_it) {
  const Srq srq = make();
  ibv_srq_attr attr{.max_wr = 8, .max_sge = 0, .srq_limit = 0};
  const int error = ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR);
  EXPECT_EQ(error == 0, (limits().device_cap_flags & IBV_DEVICE_SRQ_RESIZE) != 0) << error;
}

TEST_F(SharedReceiveQueue, destroy_srq__in_use_is_busy) {
  const Srq srq = make();
  const Cq cq = make_cq();
  ibv_qp_init_attr init = small_rc(cq.get());
  init.srq = srq.get();
  const Qp qp = make_qp(init);
  EXPECT_EQ(ibv_destroy_srq(srq.get()), EBUSY);
}

TEST_F(SharedReceiveQueue, dealloc_pd__in_use_is_busy) {
  Pd own(ibv_alloc_pd(context()));
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  const Srq srq(ibv_create_srq(own.get(), &attr));
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(own.get()), EBUSY);
}

TEST_F(SharedReceiveQueue, post_srq_recv__names_the_first_that_does_not_fit) {
  const Srq srq = make(4, 1);
  const std::uint32_t room = query(srq.get()).max_wr;
  std::vector<ibv_recv_wr> requests(room + 2);
  for (std::uint32_t i = 0; i < room + 2; ++i)
    requests[i] = receive_request(i, nullptr, 0, i + 1 < room + 2 ? &requests[i + 1] : nullptr);
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq.get(), requests.data(), &bad), ENOMEM);
  EXPECT_EQ(bad, &requests[room]);
}

TEST_F(SharedReceiveQueue, post_srq_recv__too_many_elements_is_invalid) {
  const Srq srq = make();
  std::vector<ibv_sge> sges(query(srq.get()).max_sge + 1);
  ibv_recv_wr wr = receive_request(1, sges.data(), static_cast<int>(sges.size()));
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
}

TEST_F(ShimSharedReceiveQueue, post_recv__qp_has_no_receive_queue_of_its_own) {
  const Srq srq = make();
  const Cq cq = make_cq();
  ibv_qp_init_attr init = small_rc(cq.get());
  init.srq = srq.get();
  const Qp qp = make_qp(init);
  bring_up(qp.get(), IBV_QPS_INIT);
  ibv_recv_wr wr = receive_request(1, nullptr, 0);
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(qp.get(), &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
}

}  // namespace
}  // namespace roci::abi
