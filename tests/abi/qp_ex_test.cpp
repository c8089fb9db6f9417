#include <array>
#include <cstring>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

constexpr std::uint64_t kOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

/// The QP of `local` is made again with the extended interface.
class ExtendedPost : public Connected {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Connected::SetUp());
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = local.cq.get();
    attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 16};
    attr.qp_type = IBV_QPT_RC;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd();
    attr.send_ops_flags = kOperations;
    local.qp.reset(ibv_create_qp_ex(context(), &attr));
    ASSERT_NE(local.qp, nullptr);
    max_inline_ = attr.cap.max_inline_data;
    max_send_wr_ = attr.cap.max_send_wr;
    qp_ = ibv_qp_to_qp_ex(local.qp.get());
    ASSERT_NE(qp_, nullptr);
    bring_up(local.qp.get(), IBV_QPS_RTS, remote.qp->qp_num);
    ASSERT_EQ(move_to(remote.qp.get(), IBV_QPS_RESET), 0);
    bring_up(remote.qp.get(), IBV_QPS_RTS, local.qp->qp_num);
  }
  void add_write(std::uint64_t wr_id, std::uint32_t bytes = 8) {
    qp_->wr_id = wr_id;
    qp_->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(qp_, remote.mr->rkey, remote.address());
    ibv_wr_set_sge(qp_, local.mr->lkey, local.address(), bytes);
  }
  void expect_no_completion() {
    ibv_wc wc{};
    for (int i = 0; i < 100; ++i) EXPECT_EQ(ibv_poll_cq(local.cq.get(), 1, &wc), 0);
  }

  ibv_qp_ex* qp_ = nullptr;
  std::uint32_t max_inline_ = 0;
  std::uint32_t max_send_wr_ = 0;
};

class ShimExtendedPost : public ExtendedPost {};

TEST_F(ExtendedPost, wr_complete__posts_the_batch_in_order) {
  std::memcpy(local.memory.data(), "rocinante", 9);
  ibv_wr_start(qp_);
  for (std::uint64_t id = 0; id < 3; ++id) add_write(id, 9);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  const auto completions = wait_for_completions(local.cq.get(), 3);
  ASSERT_EQ(completions.size(), 3u);
  for (std::uint64_t id = 0; id < 3; ++id) {
    EXPECT_EQ(completions[id].wr_id, id);
    EXPECT_EQ(completions[id].status, IBV_WC_SUCCESS);
    EXPECT_EQ(completions[id].opcode, IBV_WC_RDMA_WRITE);
  }
  EXPECT_EQ(std::memcmp(remote.memory.data(), "rocinante", 9), 0);
}

TEST_F(ExtendedPost, wr_complete__empty_batch_is_nothing) {
  ibv_wr_start(qp_);
  EXPECT_EQ(ibv_wr_complete(qp_), 0);
  expect_no_completion();
}

TEST_F(ExtendedPost, wr_abort__forgets_the_batch) {
  ibv_wr_start(qp_);
  add_write(1);
  ibv_wr_abort(qp_);
  expect_no_completion();
  ibv_wr_start(qp_);
  add_write(2);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  const auto completions = wait_for_completions(local.cq.get(), 1);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].wr_id, 2u);
}

TEST_F(ShimExtendedPost, wr_complete__batch_that_does_not_fit_posts_nothing) {
  ibv_wr_start(qp_);
  for (std::uint64_t id = 0; id <= max_send_wr_; ++id) add_write(id);
  EXPECT_EQ(ibv_wr_complete(qp_), ENOMEM);
  expect_no_completion();
  ibv_wr_start(qp_);
  for (std::uint64_t id = 0; id < max_send_wr_; ++id) add_write(id);
  EXPECT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(wait_for_completions(local.cq.get(), max_send_wr_).size(), max_send_wr_);
}

TEST_F(ShimExtendedPost, wr_complete__one_bad_request_posts_nothing) {
  std::array<ibv_sge, 3> sges{};
  ibv_wr_start(qp_);
  add_write(1);
  qp_->wr_id = 2;
  ibv_wr_rdma_write(qp_, remote.mr->rkey, remote.address());
  ibv_wr_set_sge_list(qp_, sges.size(), sges.data());
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  expect_no_completion();
}

TEST_F(ShimExtendedPost, wr_complete__operation_not_asked_for_is_invalid) {
  ibv_wr_start(qp_);
  ibv_wr_rdma_read(qp_, remote.mr->rkey, remote.address());
  ibv_wr_set_sge(qp_, local.mr->lkey, local.address(), 8);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
}

TEST_F(ShimExtendedPost, wr_complete__data_without_an_operation_is_invalid) {
  ibv_wr_start(qp_);
  ibv_wr_set_sge(qp_, local.mr->lkey, local.address(), 8);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
}

TEST_F(ShimExtendedPost, wr_complete__before_rts_is_invalid) {
  ASSERT_EQ(move_to(local.qp.get(), IBV_QPS_RESET), 0);
  ibv_wr_start(qp_);
  add_write(1);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
}

TEST_F(ExtendedPost, wr_set_inline_data__is_copied_at_once) {
  std::array<char, 8> data{"shield"};
  ibv_wr_start(qp_);
  qp_->wr_id = 1;
  qp_->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ibv_wr_rdma_write(qp_, remote.mr->rkey, remote.address());
  ibv_wr_set_inline_data(qp_, data.data(), data.size());
  data.fill('x');
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(local.next_status(), IBV_WC_SUCCESS);
  EXPECT_STREQ(reinterpret_cast<const char*>(remote.memory.data()), "shield");
}

TEST_F(ShimExtendedPost, wr_set_inline_data_list__is_put_together) {
  std::array<ibv_data_buf, 2> parts{ibv_data_buf{const_cast<char*>("lan"), 3}, {const_cast<char*>("ce"), 3}};
  ibv_wr_start(qp_);
  qp_->wr_id = 1;
  qp_->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp_, remote.mr->rkey, remote.address());
  ibv_wr_set_inline_data_list(qp_, parts.size(), parts.data());
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(local.next_status(), IBV_WC_SUCCESS);
  EXPECT_STREQ(reinterpret_cast<const char*>(remote.memory.data()), "lance");
}

TEST_F(ShimExtendedPost, wr_set_inline_data__too_much_is_invalid) {
  std::vector<std::uint8_t> data(max_inline_ + 1);
  ibv_wr_start(qp_);
  ibv_wr_rdma_write(qp_, remote.mr->rkey, remote.address());
  ibv_wr_set_inline_data(qp_, data.data(), data.size());
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  expect_no_completion();
}

TEST_F(ExtendedPost, wr_send_imm__carries_the_number) {
  ibv_sge into = remote.sge(64);
  ibv_recv_wr receive = receive_request(9, &into, 1);
  ASSERT_EQ(remote.post(receive), 0);
  ibv_wr_start(qp_);
  qp_->wr_id = 1;
  qp_->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(qp_, 0x11223344);
  ibv_wr_set_sge(qp_, local.mr->lkey, local.address(), 5);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  const auto received = wait_for_completions(remote.cq.get(), 1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wr_id, 9u);
  EXPECT_EQ(received[0].byte_len, 5u);
  EXPECT_EQ(received[0].imm_data, 0x11223344u);
  EXPECT_TRUE((received[0].wc_flags & IBV_WC_WITH_IMM) != 0);
  EXPECT_EQ(local.next_status(), IBV_WC_SUCCESS);
}

TEST_F(ExtendedPost, wr_atomic_fetch_add__adds) {
  std::uint64_t before = 40;
  std::memcpy(remote.memory.data(), &before, sizeof before);
  ibv_wr_start(qp_);
  qp_->wr_id = 1;
  qp_->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_atomic_fetch_add(qp_, remote.mr->rkey, remote.address(), 2);
  ibv_wr_set_sge(qp_, local.mr->lkey, local.address(), 8);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(local.next_status(), IBV_WC_SUCCESS);
  std::uint64_t fetched = 0;
  std::uint64_t after = 0;
  std::memcpy(&fetched, local.memory.data(), sizeof fetched);
  std::memcpy(&after, remote.memory.data(), sizeof after);
  EXPECT_EQ(fetched, 40u);
  EXPECT_EQ(after, 42u);
}

/// A null pointer here would be a crash in the client, whatever the QP was made for.
TEST_F(ShimExtendedPost, functions__are_all_there) {
  for (const bool there : {qp_->wr_atomic_cmp_swp != nullptr,
                           qp_->wr_atomic_fetch_add != nullptr,
                           qp_->wr_bind_mw != nullptr,
                           qp_->wr_local_inv != nullptr,
                           qp_->wr_rdma_read != nullptr,
                           qp_->wr_rdma_write != nullptr,
                           qp_->wr_rdma_write_imm != nullptr,
                           qp_->wr_send != nullptr,
                           qp_->wr_send_imm != nullptr,
                           qp_->wr_send_inv != nullptr,
                           qp_->wr_send_tso != nullptr,
                           qp_->wr_set_ud_addr != nullptr,
                           qp_->wr_set_xrc_srqn != nullptr,
                           qp_->wr_set_inline_data != nullptr,
                           qp_->wr_set_sge != nullptr,
                           qp_->wr_set_sge_list != nullptr,
                           qp_->wr_set_inline_data_list != nullptr,
                           qp_->wr_start != nullptr,
                           qp_->wr_complete != nullptr,
                           qp_->wr_abort != nullptr,
                           qp_->wr_atomic_write != nullptr})
    EXPECT_TRUE(there);
}

TEST_F(ShimExtendedPost, functions__that_do_nothing_yet_fail_the_batch) {
  ibv_wr_start(qp_);
  ibv_wr_atomic_write(qp_, 1, 0, "eight...");
  EXPECT_EQ(ibv_wr_complete(qp_), EOPNOTSUPP);
}

}  // namespace
}  // namespace roci::abi
