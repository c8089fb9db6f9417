#include "tests/abi/client.h"

namespace roci::abi {
namespace {

class CompletionQueue : public Client {
 protected:
  int create_error(int entries, int vector = 0) {
    return error_of<Cq>([&] { return ibv_create_cq(context(), entries, nullptr, nullptr, vector); });
  }
  int create_ex_error(ibv_cq_init_attr_ex attr) {
    return error_of<CqEx>([&] { return ibv_create_cq_ex(context(), &attr); });
  }
};

class ShimCompletionQueue : public CompletionQueue {};

TEST_F(CompletionQueue, create_cq__depth_is_at_least_what_was_asked) {
  for (const int entries : {1, 2, 3, 100}) {
    const Cq cq = make_cq(entries);
    EXPECT_GE(cq->cqe, entries);
    EXPECT_EQ(cq->context, context());
    EXPECT_EQ(cq->channel, nullptr);
  }
}

TEST_F(CompletionQueue, create_cq__depth_out_of_range_is_invalid) {
  EXPECT_EQ(create_error(0), EINVAL);
  EXPECT_EQ(create_error(-1), EINVAL);
  EXPECT_EQ(create_error(limits().max_cqe + 1), EINVAL);
}

TEST_F(ShimCompletionQueue, create_cq__deepest) { EXPECT_EQ(create_error(limits().max_cqe), 0); }

TEST_F(CompletionQueue, create_cq__vector_out_of_range_is_invalid) {
  EXPECT_EQ(create_error(4, context()->num_comp_vectors), EINVAL);
  EXPECT_EQ(create_error(4, -1), EINVAL);
}

TEST_F(CompletionQueue, destroy_cq__in_use_is_busy) {
  const Cq cq = make_cq();
  const Qp qp = make_qp(small_rc(cq.get()));
  EXPECT_EQ(ibv_destroy_cq(cq.get()), EBUSY);
}

TEST_F(CompletionQueue, resize_cq__changes_the_depth) {
  const Cq cq = make_cq(4);
  ASSERT_EQ(ibv_resize_cq(cq.get(), 64), 0);
  EXPECT_GE(cq->cqe, 64);
}

TEST_F(CompletionQueue, resize_cq__depth_out_of_range_is_invalid_and_changes_nothing) {
  const Cq cq = make_cq(4);
  const int depth = cq->cqe;
  EXPECT_EQ(ibv_resize_cq(cq.get(), 0), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq.get(), -1), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq.get(), limits().max_cqe + 1), EINVAL);
  EXPECT_EQ(cq->cqe, depth);
}

TEST_F(CompletionQueue, poll_cq__empty_gives_none) {
  const Cq cq = make_cq();
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
  EXPECT_EQ(ibv_poll_cq(cq.get(), 0, &wc), 0);
}

TEST_F(CompletionQueue, poll_cq__takes_no_more_than_it_may) {
  const Cq cq = make_cq();
  const Qp qp = make_qp(small_rc(cq.get()));
  bring_up(qp.get(), IBV_QPS_INIT);
  for (std::uint64_t id = 0; id < 4; ++id) {
    ibv_recv_wr wr = receive_request(id, nullptr, 0);
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp.get(), &wr, &bad), 0);
  }
  ASSERT_EQ(move_to(qp.get(), IBV_QPS_ERR), 0);
  std::vector<ibv_wc> all = wait_for_completions(cq.get(), 2);
  ibv_wc rest[4];
  all.push_back(wait_for_completions(cq.get(), 1).at(0));
  EXPECT_EQ(ibv_poll_cq(cq.get(), 4, rest), 1);
  all.push_back(rest[0]);
  ASSERT_EQ(all.size(), 4u);
  for (std::uint64_t id = 0; id < 4; ++id) {
    EXPECT_EQ(all[id].wr_id, id);
    EXPECT_EQ(all[id].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(all[id].qp_num, qp->qp_num);
  }
}

TEST_F(CompletionQueue, create_cq_ex__arguments_out_of_range_are_refused) {
  EXPECT_EQ(create_ex_error({.cqe = 0}), EINVAL);
  EXPECT_EQ(create_ex_error({.cqe = static_cast<std::uint32_t>(limits().max_cqe) + 1}), EINVAL);
  EXPECT_EQ(create_ex_error({.cqe = 4, .comp_vector = static_cast<std::uint32_t>(context()->num_comp_vectors)}),
            EINVAL);
}

TEST_F(ShimCompletionQueue, create_cq_ex__unknown_wishes_are_refused) {
  EXPECT_NE(create_ex_error({.cqe = 4, .comp_mask = 1u << 20}), 0);
  EXPECT_NE(create_ex_error({.cqe = 4, .wc_flags = 1ull << 40}), 0);
  EXPECT_NE(create_ex_error({.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1u << 20}), 0);
}

class ShimExtendedPoll : public CompletionQueue {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CompletionQueue::SetUp());
    ibv_cq_init_attr_ex attr{.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
    cq_.reset(ibv_create_cq_ex(context(), &attr));
    ASSERT_NE(cq_, nullptr);
    qp_ = make_qp(small_rc(ibv_cq_ex_to_cq(cq_.get())));
    bring_up(qp_.get(), IBV_QPS_INIT);
  }
  void flush_receives(std::uint64_t count) {
    for (std::uint64_t id = 0; id < count; ++id) {
      ibv_recv_wr wr = receive_request(id, nullptr, 0);
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_recv(qp_.get(), &wr, &bad), 0);
    }
    ASSERT_EQ(move_to(qp_.get(), IBV_QPS_ERR), 0);
  }
  int start() {
    ibv_poll_cq_attr attr{};
    return ibv_start_poll(cq_.get(), &attr);
  }

  CqEx cq_;
  Qp qp_;
};

TEST_F(ShimExtendedPoll, start_poll__empty_is_no_entry) {
  EXPECT_EQ(start(), ENOENT);
  EXPECT_EQ(start(), ENOENT) << "the queue must not stay locked";
}

TEST_F(ShimExtendedPoll, start_poll__unknown_wish_is_invalid) {
  ibv_poll_cq_attr attr{.comp_mask = 1};
  EXPECT_EQ(ibv_start_poll(cq_.get(), &attr), EINVAL);
}

TEST_F(ShimExtendedPoll, next_poll__goes_through_the_queue) {
  flush_receives(3);
  int error = ENOENT;
  while (error == ENOENT) error = start();
  std::uint64_t seen = 0;
  for (; error == 0; error = ibv_next_poll(cq_.get())) {
    EXPECT_EQ(cq_->wr_id, seen++);
    EXPECT_EQ(cq_->status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(ibv_wc_read_qp_num(cq_.get()), qp_->qp_num);
    EXPECT_EQ(ibv_wc_read_vendor_err(cq_.get()), 0u);
  }
  EXPECT_EQ(error, ENOENT);
  ibv_end_poll(cq_.get());
  EXPECT_EQ(seen, 3u);
  EXPECT_EQ(start(), ENOENT);
}

TEST_F(ShimExtendedPoll, plain_poll__works_on_the_same_queue) {
  flush_receives(1);
  const auto completions = wait_for_completions(ibv_cq_ex_to_cq(cq_.get()), 1);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(ShimCompletionQueue, create_cq_ex__has_all_functions) {
  ibv_cq_init_attr_ex attr{.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
  const CqEx cq(ibv_create_cq_ex(context(), &attr));
  ASSERT_NE(cq, nullptr);
  for (const bool there :
       {cq->start_poll != nullptr, cq->next_poll != nullptr, cq->end_poll != nullptr, cq->read_opcode != nullptr,
        cq->read_vendor_err != nullptr, cq->read_byte_len != nullptr, cq->read_imm_data != nullptr,
        cq->read_qp_num != nullptr, cq->read_src_qp != nullptr, cq->read_wc_flags != nullptr, cq->read_slid != nullptr,
        cq->read_sl != nullptr, cq->read_dlid_path_bits != nullptr, cq->read_completion_ts != nullptr,
        cq->read_cvlan != nullptr, cq->read_flow_tag != nullptr, cq->read_tm_info != nullptr,
        cq->read_completion_wallclock_ns != nullptr})
    EXPECT_TRUE(there);
}

TEST_F(ShimCompletionQueue, modify_cq__is_not_supported) {
  const Cq cq = make_cq();
  ibv_modify_cq_attr attr{};
  EXPECT_EQ(ibv_modify_cq(cq.get(), &attr), EOPNOTSUPP);
}

}  // namespace
}  // namespace roci::abi
