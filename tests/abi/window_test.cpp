#include <array>
#include <cstring>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

constexpr unsigned kSignaled = IBV_SEND_SIGNALED;

/// `remote` has a region for windows, and `local` makes use of what is bound to it.
class ShimMemoryWindow : public Connected {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Connected::SetUp());
    region_ = make_mr(remote.memory.data(), kMemoryBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  }

  Mw make_mw(ibv_mw_type type) {
    Mw mw(ibv_alloc_mw(pd(), type));
    EXPECT_NE(mw, nullptr);
    return mw;
  }
  ibv_mw_bind_info info(unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) {
    return {.mr = region_.get(), .addr = remote.address() + 128, .length = 256, .mw_access_flags = access};
  }
  int bind_1(ibv_mw* mw, const ibv_mw_bind_info& what) {
    ibv_mw_bind bind{.wr_id = 1, .send_flags = kSignaled, .bind_info = what};
    return ibv_bind_mw(remote.qp.get(), mw, &bind);
  }
  static ibv_send_wr bind_request(ibv_mw* mw, const ibv_mw_bind_info& what) {
    ibv_send_wr wr = send_request(1, nullptr, 0);
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = what};
    return wr;
  }
  /// Binds a window of type 2 and keeps its key as programs do.
  void bind_2(ibv_mw* mw, const ibv_mw_bind_info& what) {
    ibv_send_wr wr = bind_request(mw, what);
    ASSERT_EQ(remote.post(wr), 0);
    ASSERT_EQ(remote.next_status(), IBV_WC_SUCCESS);
    mw->rkey = wr.bind_mw.rkey;
  }
  int invalidate(std::uint32_t rkey) {
    ibv_send_wr wr = send_request(2, nullptr, 0);
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.invalidate_rkey = rkey;
    return remote.post(wr);
  }
  ibv_wc_status write(std::uint32_t rkey, std::uint64_t address, std::uint32_t bytes = 8) {
    ibv_sge sge = local.sge(bytes);
    ibv_send_wr wr = send_request(3, &sge, 1);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {.remote_addr = address, .rkey = rkey};
    EXPECT_EQ(local.post(wr), 0);
    return local.next_status();
  }

  Mr region_;
};

TEST_F(ShimMemoryWindow, device__says_which_windows_it_has) {
  EXPECT_NE(limits().device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0u);
  EXPECT_NE(limits().device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  EXPECT_EQ(limits().device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0u);
  EXPECT_GT(limits().max_mw, 0);
}

TEST_F(ShimMemoryWindow, alloc_mw__describes_itself) {
  for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    const Mw mw = make_mw(type);
    EXPECT_EQ(mw->context, context());
    EXPECT_EQ(mw->pd, pd());
    EXPECT_EQ(mw->type, type);
    EXPECT_NE(mw->rkey, 0u);
  }
  EXPECT_EQ(error_of<Mw>([&] { return ibv_alloc_mw(pd(), static_cast<ibv_mw_type>(3)); }), EINVAL);
  EXPECT_EQ(error_of<Mw>([&] { return ibv_alloc_mw(pd(), static_cast<ibv_mw_type>(0)); }), EINVAL);
}

TEST_F(ShimMemoryWindow, alloc_mw__keeps_its_domain_busy) {
  const Pd own(ibv_alloc_pd(context()));
  const Mw mw(ibv_alloc_mw(own.get(), IBV_MW_TYPE_1));
  ASSERT_NE(mw, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(own.get()), EBUSY);
}

TEST_F(ShimMemoryWindow, bind_mw__opens_its_part_under_a_new_key) {
  const Mw mw = make_mw(IBV_MW_TYPE_1);
  const std::uint32_t before = mw->rkey;
  ASSERT_EQ(bind_1(mw.get(), info()), 0);
  EXPECT_EQ(mw->rkey, ibv_inc_rkey(before));
  const auto bound = wait_for_completions(remote.cq.get(), 1);
  ASSERT_EQ(bound.size(), 1u);
  EXPECT_EQ(bound[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(bound[0].opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(bound[0].wr_id, 1u);
  local.memory[0] = 77;
  EXPECT_EQ(write(mw->rkey, remote.address() + 128), IBV_WC_SUCCESS);
  EXPECT_EQ(remote.memory[128], 77);
  EXPECT_EQ(write(before, remote.address() + 128), IBV_WC_REM_ACCESS_ERR);
}

/// As Linux has it; a window has no L_Key to write by.
TEST_F(ShimMemoryWindow, bind_mw__local_write_may_be_asked_for) {
  const Mw mw = make_mw(IBV_MW_TYPE_1);
  ASSERT_EQ(bind_1(mw.get(), info(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)), 0);
  ASSERT_EQ(remote.next_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(write(mw->rkey, remote.address() + 128), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ShimMemoryWindow, bind_mw__beside_the_window_is_a_remote_access_error) {
  const Mw mw = make_mw(IBV_MW_TYPE_1);
  ASSERT_EQ(bind_1(mw.get(), info()), 0);
  ASSERT_EQ(remote.next_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(write(mw->rkey, remote.address() + 128 + 249), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ShimMemoryWindow, bind_mw__without_bytes_unbinds) {
  const Mw mw = make_mw(IBV_MW_TYPE_1);
  ASSERT_EQ(bind_1(mw.get(), info()), 0);
  ASSERT_EQ(remote.next_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(region_.get()), EBUSY);
  ASSERT_EQ(bind_1(mw.get(), {}), 0);
  ASSERT_EQ(remote.next_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(write(mw->rkey, remote.address() + 128), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ShimMemoryWindow, bind_mw__wrong_arguments_change_nothing) {
  const Mw mw = make_mw(IBV_MW_TYPE_1);
  const Mw of_type_2 = make_mw(IBV_MW_TYPE_2);
  const Pd other_pd(ibv_alloc_pd(context()));
  const Mr other_mr(ibv_reg_mr(other_pd.get(), remote.memory.data(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
  const std::uint32_t key = mw->rkey;
  ibv_mw_bind_info what = info();
  what.mr = other_mr.get();
  EXPECT_EQ(bind_1(mw.get(), what), EPERM);
  what = info();
  what.mr = nullptr;
  EXPECT_EQ(bind_1(mw.get(), what), EINVAL);
  EXPECT_EQ(bind_1(mw.get(), info(IBV_ACCESS_MW_BIND)), EINVAL);
  EXPECT_EQ(bind_1(mw.get(), info(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED)), EINVAL);
  EXPECT_EQ(bind_1(of_type_2.get(), info()), EINVAL);
  for (const unsigned flags : {unsigned{IBV_SEND_INLINE}, unsigned{IBV_SEND_SOLICITED}, 1u << 20}) {
    ibv_mw_bind bind{.wr_id = 1, .send_flags = flags, .bind_info = info()};
    EXPECT_EQ(ibv_bind_mw(remote.qp.get(), mw.get(), &bind), EINVAL) << flags;
  }
  const Qp idle = make_qp(small_rc(remote.cq.get()));
  ibv_mw_bind bind{.wr_id = 1, .send_flags = kSignaled, .bind_info = info()};
  EXPECT_EQ(ibv_bind_mw(idle.get(), mw.get(), &bind), EINVAL) << "a QP in RESET";
  EXPECT_EQ(mw->rkey, key);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(remote.cq.get(), 1, &wc), 0);
  EXPECT_EQ(bind_1(mw.get(), info()), 0);
  EXPECT_EQ(remote.next_status(), IBV_WC_SUCCESS);
}

TEST_F(ShimMemoryWindow, bind_mw__full_queue_is_out_of_memory) {
  const Mw mw = make_mw(IBV_MW_TYPE_1);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(bind_1(mw.get(), info()), 0);
  const std::uint32_t key = mw->rkey;
  EXPECT_EQ(bind_1(mw.get(), info()), ENOMEM);
  EXPECT_EQ(mw->rkey, key);
}

TEST_F(ShimMemoryWindow, post_send__binds_and_invalidates_one_of_type_2) {
  const Mw mw = make_mw(IBV_MW_TYPE_2);
  bind_2(mw.get(), info());
  EXPECT_EQ(write(mw->rkey, remote.address() + 128), IBV_WC_SUCCESS);
  ASSERT_EQ(invalidate(mw->rkey), 0);
  const auto done = wait_for_completions(remote.cq.get(), 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(done[0].opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(write(mw->rkey, remote.address() + 128), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ShimMemoryWindow, post_send__zero_based_counts_from_the_windows_start) {
  const Mw mw = make_mw(IBV_MW_TYPE_2);
  bind_2(mw.get(), info(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED));
  local.memory[0] = 88;
  EXPECT_EQ(write(mw->rkey, 0), IBV_WC_SUCCESS);
  EXPECT_EQ(remote.memory[128], 88);
  EXPECT_EQ(write(mw->rkey, 249), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ShimMemoryWindow, post_send__malformed_binds_are_invalid) {
  const Mw mw = make_mw(IBV_MW_TYPE_2);
  const Mw of_type_1 = make_mw(IBV_MW_TYPE_1);
  const auto refused = [&](ibv_send_wr wr) { return remote.post(wr); };
  ibv_send_wr wr = bind_request(mw.get(), info());
  wr.bind_mw.mw = nullptr;
  EXPECT_EQ(refused(wr), EINVAL);
  EXPECT_EQ(refused(bind_request(of_type_1.get(), info())), EINVAL);
  EXPECT_EQ(refused(bind_request(mw.get(), info(IBV_ACCESS_MW_BIND))), EINVAL);
  wr = bind_request(mw.get(), info());
  wr.bind_mw.rkey ^= 0x100;
  EXPECT_EQ(refused(wr), EINVAL) << "another window's key";
  for (const unsigned flag : {unsigned{IBV_SEND_INLINE}, unsigned{IBV_SEND_SOLICITED}}) {
    wr = bind_request(mw.get(), info());
    wr.send_flags |= flag;
    EXPECT_EQ(refused(wr), EINVAL) << flag;
    wr = send_request(2, nullptr, 0);
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.send_flags |= flag;
    EXPECT_EQ(refused(wr), EINVAL) << flag;
  }
  bind_2(mw.get(), info());
}

/// Seen when they are executed.
TEST_F(ShimMemoryWindow, post_send__binds_against_the_rules_fail) {
  const Mw mw = make_mw(IBV_MW_TYPE_2);
  ibv_mw_bind_info past = info();
  past.addr = remote.address() + kMemoryBytes - 255;
  ibv_mw_bind_info unwilling = info();
  unwilling.mr = remote.mr.get();
  ibv_mw_bind_info none = info();
  none.mr = nullptr;
  ibv_mw_bind_info empty = info();
  empty.length = 0;
  for (const ibv_mw_bind_info& what : {past, unwilling, none, empty}) {
    ibv_send_wr wr = bind_request(mw.get(), what);
    ASSERT_EQ(remote.post(wr), 0);
    EXPECT_EQ(remote.next_status(), IBV_WC_MW_BIND_ERR);
    EXPECT_EQ(state_of(remote.qp.get()), IBV_QPS_ERR);
    ASSERT_EQ(move_to(remote.qp.get(), IBV_QPS_RESET), 0);
    bring_up(remote.qp.get(), IBV_QPS_RTS, local.qp->qp_num);
  }
}

TEST_F(ShimMemoryWindow, post_send__invalidating_what_is_no_bound_window_fails) {
  const Mw mw = make_mw(IBV_MW_TYPE_2);
  for (const std::uint32_t key : {mw->rkey, region_->rkey, 0u}) {
    ASSERT_EQ(invalidate(key), 0);
    EXPECT_EQ(remote.next_status(), IBV_WC_MW_BIND_ERR);
    ASSERT_EQ(move_to(remote.qp.get(), IBV_QPS_RESET), 0);
    bring_up(remote.qp.get(), IBV_QPS_RTS, local.qp->qp_num);
  }
}

TEST_F(ShimMemoryWindow, send_with_invalidate__closes_the_peers_window) {
  const Mw mw = make_mw(IBV_MW_TYPE_2);
  bind_2(mw.get(), info());
  ibv_sge into = remote.sge(8, 1024);
  ibv_recv_wr receive = receive_request(9, &into, 1);
  ASSERT_EQ(remote.post(receive), 0);
  ibv_sge sge = local.sge(8);
  ibv_send_wr wr = send_request(4, &sge, 1);
  wr.opcode = IBV_WR_SEND_WITH_INV;
  wr.invalidate_rkey = mw->rkey;
  ASSERT_EQ(local.post(wr), 0);
  const auto received = wait_for_completions(remote.cq.get(), 1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, IBV_WC_SUCCESS);
  EXPECT_NE(received[0].wc_flags & IBV_WC_WITH_INV, 0u);
  EXPECT_EQ(received[0].invalidated_rkey, mw->rkey);
  EXPECT_EQ(local.next_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(write(mw->rkey, remote.address() + 128), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ShimMemoryWindow, send_with_invalidate__of_a_region_fails_the_receiver) {
  ibv_sge into = remote.sge(8, 1024);
  ibv_recv_wr receive = receive_request(9, &into, 1);
  ASSERT_EQ(remote.post(receive), 0);
  ibv_send_wr wr = send_request(4, nullptr, 0);
  wr.opcode = IBV_WR_SEND_WITH_INV;
  wr.invalidate_rkey = region_->rkey;
  ASSERT_EQ(local.post(wr), 0);
  EXPECT_EQ(remote.next_status(), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(local.next_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(state_of(remote.qp.get()), IBV_QPS_ERR);
}

TEST_F(ShimMemoryWindow, dealloc_mw__of_a_bound_one_closes_it_and_frees_the_region) {
  Mw mw = make_mw(IBV_MW_TYPE_2);
  bind_2(mw.get(), info());
  const std::uint32_t key = mw->rkey;
  EXPECT_EQ(ibv_dereg_mr(region_.get()), EBUSY);
  errno = 0;
  EXPECT_EQ(ibv_rereg_mr(region_.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EBUSY);
  mw.reset();
  EXPECT_EQ(write(key, remote.address() + 128), IBV_WC_REM_ACCESS_ERR);
}

/// The extended way to post them.
class ShimExtendedWindow : public ShimMemoryWindow {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ShimMemoryWindow::SetUp());
    remote.qp.reset();
    make_extended(IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND);
  }
  void make_extended(std::uint64_t operations) {
    const ibv_qp_init_attr plain = small_rc(remote.cq.get());
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = remote.cq.get();
    attr.cap = plain.cap;
    attr.qp_type = IBV_QPT_RC;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd();
    attr.send_ops_flags = operations;
    remote.qp.reset(ibv_create_qp_ex(context(), &attr));
    ASSERT_NE(remote.qp, nullptr);
    for (const auto& [own, peer] : {std::pair{&local, &remote}, {&remote, &local}}) {
      ASSERT_EQ(move_to(own->qp.get(), IBV_QPS_RESET), 0);
      bring_up(own->qp.get(), IBV_QPS_RTS, peer->qp->qp_num);
    }
    qp_ = ibv_qp_to_qp_ex(remote.qp.get());
  }
  void start(std::uint64_t wr_id) {
    ibv_wr_start(qp_);
    qp_->wr_id = wr_id;
    qp_->wr_flags = IBV_SEND_SIGNALED;
  }

  ibv_qp_ex* qp_ = nullptr;
};

TEST_F(ShimExtendedWindow, wr_bind_mw__then_wr_local_inv) {
  const Mw mw = make_mw(IBV_MW_TYPE_2);
  const ibv_mw_bind_info what = info();
  const std::uint32_t key = ibv_inc_rkey(mw->rkey);
  start(1);
  ibv_wr_bind_mw(qp_, mw.get(), key, &what);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(remote.next_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(write(key, remote.address() + 128), IBV_WC_SUCCESS);
  start(2);
  ibv_wr_local_inv(qp_, key);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  const auto done = wait_for_completions(remote.cq.get(), 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(done[0].wr_id, 2u);
  EXPECT_EQ(write(key, remote.address() + 128), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ShimExtendedWindow, wr_bind_mw__malformed_fails_the_batch) {
  const Mw mw = make_mw(IBV_MW_TYPE_2);
  const Mw of_type_1 = make_mw(IBV_MW_TYPE_1);
  const ibv_mw_bind_info good = info();
  const ibv_mw_bind_info bad = info(IBV_ACCESS_MW_BIND);
  const auto refused = [&](ibv_mw* window, std::uint32_t key, const ibv_mw_bind_info* what) {
    start(1);
    ibv_wr_bind_mw(qp_, window, key, what);
    return ibv_wr_complete(qp_);
  };
  EXPECT_EQ(refused(of_type_1.get(), of_type_1->rkey, &good), EINVAL);
  EXPECT_EQ(refused(mw.get(), mw->rkey ^ 0x100, &good), EINVAL);
  EXPECT_EQ(refused(mw.get(), mw->rkey, &bad), EINVAL);
  EXPECT_EQ(refused(mw.get(), mw->rkey, &good), 0);
  EXPECT_EQ(remote.next_status(), IBV_WC_SUCCESS);
}

TEST_F(ShimExtendedWindow, operations__not_asked_for_are_invalid) {
  make_extended(IBV_QP_EX_WITH_SEND);
  const Mw mw = make_mw(IBV_MW_TYPE_2);
  const ibv_mw_bind_info what = info();
  start(1);
  ibv_wr_bind_mw(qp_, mw.get(), mw->rkey, &what);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  start(1);
  ibv_wr_local_inv(qp_, mw->rkey);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
}

}  // namespace
}  // namespace roci::abi
