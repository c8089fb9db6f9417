#include <algorithm>
#include <array>
#include <numeric>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

/// What one post call said: the error, and which request it named (-1: none).
struct Answer {
  int error;
  std::ptrdiff_t bad;
  bool operator==(const Answer&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << "error " << answer.error << " at " << answer.bad;
}

template <class Request>
void chain(std::vector<Request>& requests) {
  for (std::size_t i = 0; i + 1 < requests.size(); ++i) requests[i].next = &requests[i + 1];
}

Answer post(ibv_qp* qp, std::vector<ibv_send_wr> requests) {
  chain(requests);
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, requests.data(), &bad);
  return {error, error == 0 ? -1 : bad - requests.data()};
}

Answer post(ibv_qp* qp, std::vector<ibv_recv_wr> requests) {
  chain(requests);
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp, requests.data(), &bad);
  return {error, error == 0 ? -1 : bad - requests.data()};
}

constexpr Answer kPosted{0, -1};

class Post : public Client {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Client::SetUp());
    cq_ = make_cq(64);
    qp_ = make_qp(small_rc(cq_.get()));
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(qp_.get(), &attr, IBV_QP_CAP, &init), 0);
    cap_ = init.cap;
  }

  Cq cq_;
  Qp qp_;
  ibv_qp_cap cap_{};
};

class ShimPost : public Post {};

class SendQueueSlots : public Connected {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Connected::SetUp());
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(local.qp.get(), &attr, IBV_QP_CAP, &init), 0);
    size_ = init.cap.max_send_wr;
  }
  /// Posts an RDMA WRITE of no bytes.
  int post_write(unsigned flags) {
    ibv_send_wr wr = send_request(1, nullptr, 0);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = flags;
    wr.wr.rdma = {.remote_addr = remote.address(), .rkey = remote.mr->rkey};
    return local.post(wr);
  }
  /// Returns when a READ posted by the other end, behind whatever this end sent, has completed.
  void let_them_complete() {
    ibv_sge sge = remote.sge(8);
    ibv_send_wr wr = send_request(2, &sge, 1);
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma = {.remote_addr = local.address(), .rkey = local.mr->rkey};
    ASSERT_EQ(remote.post(wr), 0);
    ASSERT_EQ(remote.next_status(), IBV_WC_SUCCESS);
  }

  std::uint32_t size_ = 0;
};

TEST_F(SendQueueSlots, slot__is_taken_until_its_completion_is_polled) {
  for (std::uint32_t i = 0; i < size_; ++i) ASSERT_EQ(post_write(IBV_SEND_SIGNALED), 0);
  for (std::uint32_t polled = 0; polled < size_; ++polled) {
    let_them_complete();
    ASSERT_EQ(post_write(IBV_SEND_SIGNALED), ENOMEM);
    ASSERT_EQ(local.next_status(), IBV_WC_SUCCESS);
    ASSERT_EQ(post_write(IBV_SEND_SIGNALED), 0);
  }
}

TEST_F(SendQueueSlots, slot__of_an_unsignalled_request_is_freed_with_the_next_signalled_one) {
  for (std::uint32_t i = 0; i + 1 < size_; ++i) ASSERT_EQ(post_write(0), 0);
  ASSERT_EQ(post_write(IBV_SEND_SIGNALED), 0);
  let_them_complete();
  ASSERT_EQ(post_write(0), ENOMEM);
  ASSERT_EQ(local.next_status(), IBV_WC_SUCCESS);
  for (std::uint32_t i = 0; i < size_; ++i) ASSERT_EQ(post_write(0), 0);
}

TEST_F(SendQueueSlots, slot__is_free_again_after_reset_and_old_completions_free_no_more) {
  for (std::uint32_t i = 0; i < size_; ++i) ASSERT_EQ(post_write(IBV_SEND_SIGNALED), 0);
  let_them_complete();
  ASSERT_EQ(move_to(local.qp.get(), IBV_QPS_RESET), 0);
  bring_up(local.qp.get(), IBV_QPS_RTS, remote.qp->qp_num);
  for (std::uint32_t i = 0; i < size_; ++i) ASSERT_EQ(post_write(IBV_SEND_SIGNALED), 0);
  ibv_wc wc{};
  while (ibv_poll_cq(local.cq.get(), 1, &wc) == 1) {
    if (wc.status != IBV_WC_SUCCESS) break;
  }
  EXPECT_EQ(post_write(0), ENOMEM);
}

TEST_F(SendQueueSlots, completion__may_be_polled_when_its_qp_is_gone) {
  for (std::uint32_t i = 0; i < size_; ++i) ASSERT_EQ(post_write(IBV_SEND_SIGNALED), 0);
  let_them_complete();
  local.qp.reset();
  for (std::uint32_t i = 0; i < size_; ++i) EXPECT_EQ(local.next_status(), IBV_WC_SUCCESS);
}

TEST_F(ShimPost, post_send__before_rts_is_invalid) {
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR}) {
    ASSERT_EQ(move_to(qp_.get(), IBV_QPS_RESET), 0);
    bring_up(qp_.get(), state);
    EXPECT_EQ(post(qp_.get(), {send_request(1, nullptr, 0)}), (Answer{EINVAL, 0})) << state;
  }
}

TEST_F(Post, post_send__too_many_elements_is_invalid) {
  bring_up(qp_.get(), IBV_QPS_RTS);
  std::vector<ibv_sge> sges(cap_.max_send_sge + 1);
  EXPECT_EQ(post(qp_.get(), {send_request(1, sges.data(), static_cast<int>(sges.size()))}), (Answer{EINVAL, 0}));
}

TEST_F(Post, post_send__too_much_inline_data_is_invalid) {
  bring_up(qp_.get(), IBV_QPS_RTS);
  std::vector<std::uint8_t> data(cap_.max_inline_data + 1);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(data.data()), static_cast<std::uint32_t>(data.size()), 0};
  ibv_send_wr wr = send_request(1, &sge, 1);
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(post(qp_.get(), {wr}), (Answer{EINVAL, 0}));
}

TEST_F(ShimPost, post_send__inline_read_and_atomic_are_invalid) {
  bring_up(qp_.get(), IBV_QPS_RTS);
  std::uint64_t data = 0;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(&data), sizeof data, 0};
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    ibv_send_wr wr = send_request(1, &sge, 1);
    wr.opcode = opcode;
    wr.send_flags |= IBV_SEND_INLINE;
    EXPECT_EQ(post(qp_.get(), {wr}), (Answer{EINVAL, 0})) << opcode;
  }
}

TEST_F(ShimPost, post_send__unknown_operation_or_flag_is_invalid) {
  bring_up(qp_.get(), IBV_QPS_RTS);
  ibv_send_wr wr = send_request(1, nullptr, 0);
  wr.opcode = static_cast<ibv_wr_opcode>(77);
  EXPECT_EQ(post(qp_.get(), {wr}), (Answer{EINVAL, 0}));
  wr = send_request(1, nullptr, 0);
  wr.send_flags |= 1u << 20;
  EXPECT_EQ(post(qp_.get(), {wr}), (Answer{EINVAL, 0}));
  wr = send_request(1, nullptr, -1);
  EXPECT_EQ(post(qp_.get(), {wr}), (Answer{EINVAL, 0}));
}

TEST_F(ShimPost, post_send__message_over_2_gib_is_invalid) {
  bring_up(qp_.get(), IBV_QPS_RTS);
  std::array<ibv_sge, 2> sges{ibv_sge{0, 1u << 31, 0}, ibv_sge{0, 1, 0}};
  EXPECT_EQ(post(qp_.get(), {send_request(1, sges.data(), 2)}), (Answer{EINVAL, 0}));
}

/// In ERR requests are taken and flushed, so the queue's room is seen without a peer.
TEST_F(ShimPost, post_send__full_queue_names_the_first_that_does_not_fit) {
  bring_up(qp_.get(), IBV_QPS_RTS, 0xabcdef);
  std::vector<ibv_send_wr> requests(cap_.max_send_wr + 2, send_request(7, nullptr, 0));
  EXPECT_EQ(post(qp_.get(), requests), (Answer{ENOMEM, cap_.max_send_wr}));
  EXPECT_EQ(post(qp_.get(), {send_request(8, nullptr, 0)}), (Answer{ENOMEM, 0}));
  ASSERT_EQ(move_to(qp_.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(wait_for_completions(cq_.get(), cap_.max_send_wr).size(), cap_.max_send_wr);
}

TEST_F(ShimPost, post_send__those_before_the_bad_one_are_posted) {
  bring_up(qp_.get(), IBV_QPS_RTS);
  ASSERT_EQ(move_to(qp_.get(), IBV_QPS_ERR), 0);
  ibv_send_wr bad = send_request(3, nullptr, 0);
  bad.opcode = static_cast<ibv_wr_opcode>(77);
  EXPECT_EQ(
      post(qp_.get(), {send_request(1, nullptr, 0), send_request(2, nullptr, 0), bad, send_request(4, nullptr, 0)}),
      (Answer{EINVAL, 2}));
  const auto completions = wait_for_completions(cq_.get(), 2);
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].wr_id, 1u);
  EXPECT_EQ(completions[1].wr_id, 2u);
  EXPECT_EQ(completions[1].status, IBV_WC_WR_FLUSH_ERR);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_.get(), 1, &wc), 0);
}

TEST_F(ShimPost, post_recv__in_reset_is_invalid) {
  EXPECT_EQ(post(qp_.get(), {receive_request(1, nullptr, 0)}), (Answer{EINVAL, 0}));
}

TEST_F(Post, post_recv__too_many_elements_is_invalid) {
  bring_up(qp_.get(), IBV_QPS_INIT);
  std::vector<ibv_sge> sges(cap_.max_recv_sge + 1);
  EXPECT_EQ(post(qp_.get(), {receive_request(1, sges.data(), static_cast<int>(sges.size()))}), (Answer{EINVAL, 0}));
}

TEST_F(Post, post_recv__full_queue_names_the_first_that_does_not_fit) {
  bring_up(qp_.get(), IBV_QPS_INIT);
  std::vector<ibv_recv_wr> requests(cap_.max_recv_wr + 2, receive_request(7, nullptr, 0));
  EXPECT_EQ(post(qp_.get(), requests), (Answer{ENOMEM, cap_.max_recv_wr}));
}

TEST_F(ShimPost, post__in_error_is_flushed_in_order) {
  bring_up(qp_.get(), IBV_QPS_RTS);
  ASSERT_EQ(move_to(qp_.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(post(qp_.get(), {send_request(1, nullptr, 0), send_request(2, nullptr, 0)}), kPosted);
  const auto sends = wait_for_completions(cq_.get(), 2);
  EXPECT_EQ(post(qp_.get(), {receive_request(3, nullptr, 0), receive_request(4, nullptr, 0)}), kPosted);
  const auto receives = wait_for_completions(cq_.get(), 2);
  ASSERT_EQ(sends.size(), 2u);
  ASSERT_EQ(receives.size(), 2u);
  std::uint64_t id = 1;
  for (const auto* completions : {&sends, &receives}) {
    for (const ibv_wc& wc : *completions) {
      EXPECT_EQ(wc.wr_id, id++);
      EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    }
  }
}

TEST_F(Post, post__reset_forgets_what_was_posted) {
  bring_up(qp_.get(), IBV_QPS_INIT);
  ASSERT_EQ(post(qp_.get(), {receive_request(1, nullptr, 0)}), kPosted);
  ASSERT_EQ(move_to(qp_.get(), IBV_QPS_RESET), 0);
  bring_up(qp_.get(), IBV_QPS_INIT);
  ASSERT_EQ(move_to(qp_.get(), IBV_QPS_ERR), 0);
  ibv_wc wc{};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ibv_poll_cq(cq_.get(), 1, &wc), 0);
}

TEST_F(ShimPost, post__reset_drops_completions_that_nobody_took) {
  bring_up(qp_.get(), IBV_QPS_RTS);
  ASSERT_EQ(post(qp_.get(), {receive_request(1, nullptr, 0)}), kPosted);
  ASSERT_EQ(move_to(qp_.get(), IBV_QPS_ERR), 0);
  ASSERT_EQ(move_to(qp_.get(), IBV_QPS_RESET), 0);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_.get(), 1, &wc), 0);
}

/// Wrong use that only shows when the request is executed: it fails with a completion.
class Transfer : public Connected {
 protected:
  static ibv_send_wr one_sided(ibv_wr_opcode opcode, ibv_sge* sge, std::uint64_t addr, std::uint32_t rkey) {
    ibv_send_wr wr = send_request(1, sge, 1);
    wr.opcode = opcode;
    wr.wr.rdma.remote_addr = addr;
    wr.wr.rdma.rkey = rkey;
    return wr;
  }
  ibv_wc_status write(ibv_sge sge, std::uint64_t addr, std::uint32_t rkey) {
    ibv_send_wr wr = one_sided(IBV_WR_RDMA_WRITE, &sge, addr, rkey);
    EXPECT_EQ(local.post(wr), 0);
    return local.next_status();
  }
};

class ShimTransfer : public Transfer {};

TEST_F(Transfer, write__arrives) {
  std::iota(local.memory.begin(), local.memory.end(), std::uint8_t{1});
  EXPECT_EQ(write(local.sge(1000), remote.address(), remote.mr->rkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(local.memory.begin(), local.memory.begin() + 1000, remote.memory.begin()));
}

TEST_F(Transfer, write__wrong_r_key_is_a_remote_access_error) {
  EXPECT_EQ(write(local.sge(8), remote.address(), remote.mr->rkey ^ 0x5a), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(state_of(local.qp.get()), IBV_QPS_ERR);
  EXPECT_EQ(state_of(remote.qp.get()), IBV_QPS_ERR);
}

TEST_F(Transfer, write__beyond_the_region_is_a_remote_access_error) {
  EXPECT_EQ(write(local.sge(8), remote.address() + kMemoryBytes - 7, remote.mr->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Transfer, write__before_the_region_is_a_remote_access_error) {
  EXPECT_EQ(write(local.sge(8), remote.address() - 1, remote.mr->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Transfer, write__region_without_the_right_is_a_remote_access_error) {
  const Mr read_only = make_mr(remote.memory.data(), kMemoryBytes, IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(write(local.sge(8), remote.address(), read_only->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Transfer, write__region_of_another_domain_is_a_remote_access_error) {
  const Pd other(ibv_alloc_pd(context()));
  const Mr mr(
      ibv_reg_mr(other.get(), remote.memory.data(), kMemoryBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(write(local.sge(8), remote.address(), mr->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Transfer, write__deregistered_region_is_a_remote_access_error) {
  const std::uint32_t stale = make_mr(remote.memory.data(), kMemoryBytes)->rkey;
  EXPECT_EQ(write(local.sge(8), remote.address(), stale), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ShimTransfer, write__wrong_l_key_is_a_local_protection_error) {
  ibv_sge sge = local.sge(8);
  sge.lkey ^= 0x5a;
  EXPECT_EQ(write(sge, remote.address(), remote.mr->rkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(ShimTransfer, write__beyond_the_local_region_is_a_local_protection_error) {
  ibv_sge sge = local.sge(8, kMemoryBytes - 7);
  EXPECT_EQ(write(sge, remote.address(), remote.mr->rkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Transfer, read__into_a_region_without_local_write_is_a_local_error) {
  const Mr read_only = make_mr(local.memory.data(), kMemoryBytes, IBV_ACCESS_REMOTE_READ);
  ibv_sge sge = local.sge(8);
  sge.lkey = read_only->lkey;
  ibv_send_wr wr = one_sided(IBV_WR_RDMA_READ, &sge, remote.address(), remote.mr->rkey);
  ASSERT_EQ(local.post(wr), 0);
  const ibv_wc_status status = local.next_status();
  EXPECT_TRUE(status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_ACCESS_ERR) << status;
}

TEST_F(Transfer, send__nothing_posted_to_receive_it_gives_up) {
  ibv_sge sge = local.sge(8);
  ibv_send_wr wr = send_request(1, &sge, 1);
  ASSERT_EQ(local.post(wr), 0);
  EXPECT_EQ(local.next_status(), IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_F(ShimTransfer, send__longer_than_the_receive_fails_at_both_ends) {
  ibv_sge small = remote.sge(4);
  ibv_recv_wr receive = receive_request(1, &small, 1);
  ASSERT_EQ(remote.post(receive), 0);
  ibv_sge sge = local.sge(8);
  ibv_send_wr wr = send_request(1, &sge, 1);
  ASSERT_EQ(local.post(wr), 0);
  EXPECT_EQ(local.next_status(), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(remote.next_status(), IBV_WC_LOC_LEN_ERR);
}

TEST_F(ShimTransfer, send__receive_with_a_wrong_l_key_fails_at_both_ends) {
  ibv_sge into = remote.sge(8);
  into.lkey ^= 0x5a;
  ibv_recv_wr receive = receive_request(1, &into, 1);
  ASSERT_EQ(remote.post(receive), 0);
  ibv_sge sge = local.sge(8);
  ibv_send_wr wr = send_request(1, &sge, 1);
  ASSERT_EQ(local.post(wr), 0);
  EXPECT_EQ(local.next_status(), IBV_WC_REM_OP_ERR);
  EXPECT_EQ(remote.next_status(), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Transfer, send__to_no_queue_pair_runs_out_of_retries) {
  ASSERT_EQ(move_to(local.qp.get(), IBV_QPS_RESET), 0);
  bring_up(local.qp.get(), IBV_QPS_RTS, 0xabcdef);
  ibv_send_wr wr = send_request(1, nullptr, 0);
  ASSERT_EQ(local.post(wr), 0);
  EXPECT_EQ(local.next_status(), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Transfer, atomic__address_that_is_not_aligned_is_refused) {
  ibv_sge sge = local.sge(8);
  ibv_send_wr wr = send_request(1, &sge, 1);
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.atomic.remote_addr = remote.address() + 1;
  wr.wr.atomic.rkey = remote.mr->rkey;
  // A device may see it when it is posted, or leave it to the responder (IBTA 9.7.5.2.4).
  if (const int error = local.post(wr); error != 0)
    EXPECT_EQ(error, EINVAL);
  else
    EXPECT_EQ(local.next_status(), IBV_WC_REM_INV_REQ_ERR);
}

/// An atomic moves eight bytes (IBTA 9.4.5): where there is no room for them, the other end must not be changed.
TEST_F(Transfer, atomic__result_that_does_not_fit_is_refused) {
  ibv_sge sge = local.sge(7);
  ibv_send_wr wr = send_request(1, &sge, 1);
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.atomic.remote_addr = remote.address();
  wr.wr.atomic.rkey = remote.mr->rkey;
  wr.wr.atomic.compare_add = 1;
  if (const int error = local.post(wr); error != 0)
    EXPECT_EQ(error, EINVAL);
  else
    EXPECT_NE(local.next_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(remote.memory[0], 0);
}

TEST_F(Transfer, post_send__after_a_failure_the_rest_is_flushed_in_order) {
  ibv_sge sge = local.sge(8);
  std::array<ibv_send_wr, 3> requests;
  for (std::uint64_t i = 0; i < 3; ++i) {
    requests[i] = one_sided(IBV_WR_RDMA_WRITE, &sge, remote.address(), i == 0 ? ~remote.mr->rkey : remote.mr->rkey);
    requests[i].wr_id = i;
    requests[i].next = i < 2 ? &requests[i + 1] : nullptr;
  }
  ASSERT_EQ(local.post(requests[0]), 0);
  const auto completions = wait_for_completions(local.cq.get(), 3);
  ASSERT_EQ(completions.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(completions[i].wr_id, i);
    EXPECT_EQ(completions[i].status, i == 0 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
  }
}

TEST_F(Transfer, post_send__unsignalled_failure_still_completes) {
  ibv_sge sge = local.sge(8);
  ibv_send_wr wr = one_sided(IBV_WR_RDMA_WRITE, &sge, remote.address(), ~remote.mr->rkey);
  wr.send_flags = 0;
  ASSERT_EQ(local.post(wr), 0);
  EXPECT_EQ(local.next_status(), IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace roci::abi
