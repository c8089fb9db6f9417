#include <algorithm>
#include <functional>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

class QueuePair : public Client {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Client::SetUp());
    cq_ = make_cq();
  }
  int create_error(ibv_qp_init_attr attr) {
    return error_of<Qp>([&] { return ibv_create_qp(pd(), &attr); });
  }
  int create_ex_error(ibv_qp_init_attr_ex attr) {
    return error_of<Qp>([&] { return ibv_create_qp_ex(context(), &attr); });
  }
  ibv_qp_init_attr init() { return small_rc(cq_.get()); }
  ibv_qp_init_attr_ex init_ex(std::uint32_t comp_mask) {
    const ibv_qp_init_attr plain = init();
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = plain.send_cq;
    attr.recv_cq = plain.recv_cq;
    attr.cap = plain.cap;
    attr.qp_type = plain.qp_type;
    attr.comp_mask = comp_mask;
    attr.pd = pd();
    return attr;
  }

  Cq cq_;
};

class ShimQueuePair : public QueuePair {};

TEST_F(QueuePair, create_qp__describes_itself) {
  ibv_qp_init_attr attr = init();
  int mark = 0;
  attr.qp_context = &mark;
  const Qp qp(ibv_create_qp(pd(), &attr));
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->context, context());
  EXPECT_EQ(qp->qp_context, &mark);
  EXPECT_EQ(qp->pd, pd());
  EXPECT_EQ(qp->send_cq, cq_.get());
  EXPECT_EQ(qp->recv_cq, cq_.get());
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(qp->qp_type, IBV_QPT_RC);
  EXPECT_GT(qp->qp_num, 1u) << "0 and 1 are for management (IBTA 3.9.3)";
  EXPECT_LT(qp->qp_num, 1u << 24);
}

TEST_F(QueuePair, create_qp__grants_at_least_what_was_asked) {
  ibv_qp_init_attr attr = init();
  const ibv_qp_cap asked = attr.cap;
  const Qp qp(ibv_create_qp(pd(), &attr));
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(attr.cap.max_send_wr, asked.max_send_wr);
  EXPECT_GE(attr.cap.max_recv_wr, asked.max_recv_wr);
  EXPECT_GE(attr.cap.max_send_sge, asked.max_send_sge);
  EXPECT_GE(attr.cap.max_recv_sge, asked.max_recv_sge);
  EXPECT_GE(attr.cap.max_inline_data, asked.max_inline_data);
}

TEST_F(QueuePair, create_qp__beyond_each_limit_is_invalid) {
  const auto with = [this](std::uint32_t ibv_qp_cap::*member, int value) {
    ibv_qp_init_attr attr = init();
    attr.cap.*member = static_cast<std::uint32_t>(value);
    return create_error(attr);
  };
  EXPECT_EQ(with(&ibv_qp_cap::max_send_wr, limits().max_qp_wr + 1), EINVAL);
  EXPECT_EQ(with(&ibv_qp_cap::max_recv_wr, limits().max_qp_wr + 1), EINVAL);
  EXPECT_EQ(with(&ibv_qp_cap::max_send_sge, limits().max_sge + 1), EINVAL);
  EXPECT_EQ(with(&ibv_qp_cap::max_recv_sge, limits().max_sge + 1), EINVAL);
  EXPECT_EQ(with(&ibv_qp_cap::max_inline_data, 1 << 30), EINVAL);
  EXPECT_EQ(with(&ibv_qp_cap::max_send_sge, limits().max_sge), 0);
  EXPECT_EQ(with(&ibv_qp_cap::max_recv_sge, limits().max_sge), 0);
  EXPECT_EQ(with(&ibv_qp_cap::max_send_wr, limits().max_qp_wr), 0);
}

/// Programs search for the largest inline size by trying.
TEST_F(QueuePair, create_qp__inline_limit_is_found_by_bisection) {
  std::uint32_t good = 0;
  std::uint32_t bad = 1 << 20;
  while (bad - good > 1) {
    ibv_qp_init_attr attr = init();
    attr.cap.max_inline_data = (good + bad) / 2;
    const Qp qp(ibv_create_qp(pd(), &attr));
    if (qp != nullptr)
      good = std::max((good + bad) / 2, std::min(attr.cap.max_inline_data, bad - 1));
    else
      bad = (good + bad) / 2;
  }
  EXPECT_GE(good, 64u);
}

TEST_F(ShimQueuePair, create_qp__needs_completion_queues) {
  ibv_qp_init_attr attr = init();
  attr.send_cq = nullptr;
  EXPECT_EQ(create_error(attr), EINVAL);
  attr = init();
  attr.recv_cq = nullptr;
  EXPECT_EQ(create_error(attr), EINVAL);
}

TEST_F(QueuePair, create_qp__unknown_type_is_not_supported) {
  ibv_qp_init_attr attr = init();
  attr.qp_type = static_cast<ibv_qp_type>(77);
  EXPECT_NE(create_error(attr), 0);
  attr.qp_type = IBV_QPT_RAW_PACKET;
  EXPECT_EQ(create_error(attr), EOPNOTSUPP);
}

TEST_F(QueuePair, create_qp_ex__unknown_wishes_are_refused) {
  EXPECT_NE(create_ex_error(init_ex(IBV_QP_INIT_ATTR_PD | 1u << 30)), 0);
  ibv_qp_init_attr_ex attr = init_ex(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS);
  attr.create_flags = 1u << 30;
  EXPECT_NE(create_ex_error(attr), 0);
  attr = init_ex(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
  attr.send_ops_flags = 1ull << 40;
  EXPECT_NE(create_ex_error(attr), 0);
  EXPECT_EQ(create_ex_error(init_ex(IBV_QP_INIT_ATTR_PD)), 0);
}

TEST_F(QueuePair, create_qp_ex__needs_a_domain) {
  EXPECT_NE(create_ex_error(init_ex(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)), 0);
}

TEST_F(QueuePair, dealloc_pd__in_use_is_busy) {
  Pd own(ibv_alloc_pd(context()));
  ibv_qp_init_attr attr = init();
  const Qp qp(ibv_create_qp(own.get(), &attr));
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(own.get()), EBUSY);
}

TEST_F(QueuePair, qp_to_qp_ex__only_of_a_qp_made_for_it) {
  const Qp plain = make_qp(init());
  EXPECT_EQ(ibv_qp_to_qp_ex(plain.get()), nullptr);
  ibv_qp_init_attr_ex attr = init_ex(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  const Qp extended(ibv_create_qp_ex(context(), &attr));
  ASSERT_NE(extended, nullptr);
  EXPECT_EQ(static_cast<void*>(ibv_qp_to_qp_ex(extended.get())), extended.get());
}

TEST_F(QueuePair, modify_qp__state_is_kept_current) {
  const Qp qp = make_qp(init());
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    bring_up(qp.get(), state);
    EXPECT_EQ(qp->state, state);
    EXPECT_EQ(state_of(qp.get()), state);
    ASSERT_EQ(move_to(qp.get(), IBV_QPS_RESET), 0);
  }
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
}

/// IBTA 11.2.5.2: what may follow what.
TEST_F(QueuePair, modify_qp__no_state_is_jumped_over) {
  const auto refused = [this](ibv_qp_state from, ibv_qp_state to, int mask) {
    const Qp qp = make_qp(init());
    bring_up(qp.get(), from);
    ibv_qp_attr attr = good_attributes(to);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, mask), EINVAL) << from << " to " << to;
    EXPECT_EQ(qp->state, from);
    EXPECT_EQ(state_of(qp.get()), from);
  };
  refused(IBV_QPS_RESET, IBV_QPS_RTR, kToRtr);
  refused(IBV_QPS_RESET, IBV_QPS_RTS, kToRts);
  refused(IBV_QPS_RESET, IBV_QPS_SQD, IBV_QP_STATE);
  refused(IBV_QPS_INIT, IBV_QPS_RTS, kToRts);
  refused(IBV_QPS_RTR, IBV_QPS_INIT, kToInit);
  refused(IBV_QPS_RTS, IBV_QPS_RTR, kToRtr);
  refused(IBV_QPS_RTS, IBV_QPS_INIT, kToInit);
}

struct Step {
  ibv_qp_state from;
  ibv_qp_state to;
  int mask;
};

constexpr Step kSteps[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kToInit}, {IBV_QPS_INIT, IBV_QPS_RTR, kToRtr}, {IBV_QPS_RTR, IBV_QPS_RTS, kToRts}};

TEST_F(QueuePair, modify_qp__each_required_attribute_is_required) {
  for (const Step& step : kSteps) {
    const Qp qp = make_qp(init());
    bring_up(qp.get(), step.from);
    ibv_qp_attr attr = good_attributes(step.to);
    for (int bit = 1; bit < 32; ++bit) {
      if ((step.mask & 1 << bit) == 0) continue;
      EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, step.mask & ~(1 << bit)), EINVAL) << "to " << step.to << ", bit " << bit;
    }
    EXPECT_EQ(state_of(qp.get()), step.from);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, step.mask), 0) << "to " << step.to;
  }
}

TEST_F(QueuePair, modify_qp__attributes_of_another_step_are_refused) {
  for (const Step& step : kSteps) {
    const Qp qp = make_qp(init());
    bring_up(qp.get(), step.from);
    ibv_qp_attr attr = good_attributes(step.to);
    for (const int extra : {int{IBV_QP_QKEY}, int{IBV_QP_CAP}, int{IBV_QP_EN_SQD_ASYNC_NOTIFY}})
      EXPECT_NE(ibv_modify_qp(qp.get(), &attr, step.mask | extra), 0) << "to " << step.to << ", " << extra;
    EXPECT_EQ(state_of(qp.get()), step.from);
  }
}

/// One wrong value in an otherwise good step.
struct WrongValue {
  const char* what;
  Step step;
  std::function<void(ibv_qp_attr&)> spoil;
};

TEST_F(QueuePair, modify_qp__wrong_values_are_invalid_and_change_nothing) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context(), 1, &port), 0);
  const auto past_gids = static_cast<std::uint8_t>(port.gid_tbl_len);
  const auto& [to_init, to_rtr, to_rts] = kSteps;
  const WrongValue wrong_values[] = {
      {"port 0", to_init, [](ibv_qp_attr& attr) { attr.port_num = 0; }},
      {"port 2", to_init, [](ibv_qp_attr& attr) { attr.port_num = 2; }},
      {"no GRH", to_rtr, [](ibv_qp_attr& attr) { attr.ah_attr.is_global = 0; }},
      {"path's port", to_rtr, [](ibv_qp_attr& attr) { attr.ah_attr.port_num = 2; }},
      {"source GID", to_rtr, [=](ibv_qp_attr& attr) { attr.ah_attr.grh.sgid_index = past_gids; }},
      {"initiator's depth", to_rts,
       [this](ibv_qp_attr& attr) { attr.max_rd_atomic = static_cast<std::uint8_t>(limits().max_qp_init_rd_atom + 1); }},
  };
  ASSERT_LT(limits().max_qp_init_rd_atom, 255);
  for (const WrongValue& wrong : wrong_values) {
    const Qp qp = make_qp(init());
    bring_up(qp.get(), wrong.step.from);
    ibv_qp_attr attr = good_attributes(wrong.step.to);
    wrong.spoil(attr);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, wrong.step.mask), EINVAL) << wrong.what;
    EXPECT_EQ(qp->state, wrong.step.from) << wrong.what;
    EXPECT_EQ(state_of(qp.get()), wrong.step.from) << wrong.what;
    attr = good_attributes(wrong.step.to);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, wrong.step.mask), 0) << "after " << wrong.what;
  }
}

TEST_F(ShimQueuePair, modify_qp__values_that_name_nothing_are_invalid) {
  const auto& [to_init, to_rtr, to_rts] = kSteps;
  const WrongValue wrong_values[] = {
      {"P_Key index", to_init, [](ibv_qp_attr& attr) { attr.pkey_index = 0x7fff; }},
      {"MTU 0", to_rtr, [](ibv_qp_attr& attr) { attr.path_mtu = static_cast<ibv_mtu>(0); }},
      {"MTU 6", to_rtr, [](ibv_qp_attr& attr) { attr.path_mtu = static_cast<ibv_mtu>(6); }},
      {"responder's depth", to_rtr,
       [this](ibv_qp_attr& attr) { attr.max_dest_rd_atomic = static_cast<std::uint8_t>(limits().max_qp_rd_atom + 1); }},
      {"RNR timer", to_rtr, [](ibv_qp_attr& attr) { attr.min_rnr_timer = 32; }},
      {"timeout", to_rts, [](ibv_qp_attr& attr) { attr.timeout = 32; }},
      {"retries", to_rts, [](ibv_qp_attr& attr) { attr.retry_cnt = 8; }},
      {"RNR retries", to_rts, [](ibv_qp_attr& attr) { attr.rnr_retry = 8; }},
      {"destination of another IP version", to_rtr, [](ibv_qp_attr& attr) { attr.ah_attr.grh.dgid.raw[0] = 0xfd; }},
      {"no destination", to_rtr, [](ibv_qp_attr& attr) { attr.ah_attr.grh.dgid = {}; }},
  };
  for (const WrongValue& wrong : wrong_values) {
    const Qp qp = make_qp(init());
    bring_up(qp.get(), wrong.step.from);
    ibv_qp_attr attr = good_attributes(wrong.step.to);
    wrong.spoil(attr);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, wrong.step.mask), EINVAL) << wrong.what;
    EXPECT_EQ(state_of(qp.get()), wrong.step.from) << wrong.what;
  }
}

TEST_F(ShimQueuePair, modify_qp__path_mtu_beyond_the_port_is_invalid) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context(), 1, &port), 0);
  if (port.active_mtu == IBV_MTU_4096) GTEST_SKIP() << "the port carries the largest MTU";
  const Qp qp = make_qp(init());
  bring_up(qp.get(), IBV_QPS_INIT);
  ibv_qp_attr attr = good_attributes(IBV_QPS_RTR);
  attr.path_mtu = static_cast<ibv_mtu>(port.active_mtu + 1);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRtr), EINVAL);
}

TEST_F(QueuePair, modify_qp__current_state_is_compared) {
  const Qp qp = make_qp(init());
  bring_up(qp.get(), IBV_QPS_RTS);
  ibv_qp_attr attr = good_attributes(IBV_QPS_RTS);
  attr.cur_qp_state = IBV_QPS_RTR;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
  attr.cur_qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
}

/// perftest and libfabric set the timer alone on a connected QP.
TEST_F(QueuePair, modify_qp__without_state_keeps_the_state) {
  const Qp qp = make_qp(init());
  bring_up(qp.get(), IBV_QPS_RTS);
  ibv_qp_attr attr{};
  attr.min_rnr_timer = 12;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_MIN_RNR_TIMER), 0);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  ibv_qp_init_attr ignored{};
  ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_MIN_RNR_TIMER, &ignored), 0);
  EXPECT_EQ(attr.min_rnr_timer, 12);
}

TEST_F(QueuePair, modify_qp__any_other_state_goes_to_error_and_to_reset) {
  for (const ibv_qp_state from : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    const Qp qp = make_qp(init());
    bring_up(qp.get(), from);
    EXPECT_EQ(move_to(qp.get(), IBV_QPS_ERR), 0) << from;
    EXPECT_EQ(move_to(qp.get(), IBV_QPS_ERR), 0) << "again";
    EXPECT_EQ(move_to(qp.get(), IBV_QPS_RESET), 0) << from;
    bring_up(qp.get(), from);
    EXPECT_EQ(move_to(qp.get(), IBV_QPS_RESET), 0) << from;
  }
}

/// Linux allows RESET to lead to INIT only.
TEST_F(QueuePair, modify_qp__reset_does_not_go_to_error) {
  const Qp qp = make_qp(init());
  EXPECT_EQ(move_to(qp.get(), IBV_QPS_ERR), EINVAL);
  EXPECT_EQ(state_of(qp.get()), IBV_QPS_RESET);
}

TEST_F(QueuePair, modify_qp__error_leads_only_to_reset) {
  const Qp qp = make_qp(init());
  bring_up(qp.get(), IBV_QPS_RTS);
  ASSERT_EQ(move_to(qp.get(), IBV_QPS_ERR), 0);
  for (const Step& step : kSteps) {
    ibv_qp_attr attr = good_attributes(step.to);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, step.mask), EINVAL) << step.to;
  }
}

TEST_F(QueuePair, query_qp__gives_back_what_was_set) {
  ibv_qp_init_attr created = init();
  created.sq_sig_all = 1;
  const Qp qp(ibv_create_qp(pd(), &created));
  ASSERT_NE(qp, nullptr);
  bring_up(qp.get(), IBV_QPS_RTS, 0x4321);
  const ibv_qp_attr set = good_attributes(IBV_QPS_RTS, 0x4321);
  ibv_qp_attr got{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp.get(), &got, kToInit | kToRtr | kToRts | IBV_QP_CAP, &init), 0);
  EXPECT_EQ(got.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(got.path_mtu, set.path_mtu);
  EXPECT_EQ(got.dest_qp_num, set.dest_qp_num);
  EXPECT_EQ(got.qp_access_flags, set.qp_access_flags);
  EXPECT_EQ(got.max_rd_atomic, set.max_rd_atomic);
  EXPECT_EQ(got.max_dest_rd_atomic, set.max_dest_rd_atomic);
  EXPECT_EQ(got.min_rnr_timer, set.min_rnr_timer);
  EXPECT_EQ(got.timeout, set.timeout);
  EXPECT_EQ(got.retry_cnt, set.retry_cnt);
  EXPECT_EQ(got.rnr_retry, set.rnr_retry);
  EXPECT_EQ(got.rq_psn, set.rq_psn);
  EXPECT_EQ(got.sq_psn, set.sq_psn);
  EXPECT_EQ(got.port_num, 1);
  EXPECT_EQ(got.ah_attr.is_global, 1);
  EXPECT_EQ(got.ah_attr.grh.sgid_index, gid_index());
  EXPECT_GE(got.cap.max_send_wr, small_rc(cq_.get()).cap.max_send_wr);
  EXPECT_GE(init.cap.max_recv_sge, small_rc(cq_.get()).cap.max_recv_sge);
  EXPECT_EQ(init.sq_sig_all, 1);
  EXPECT_EQ(init.send_cq, cq_.get());
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
}

TEST_F(QueuePair, query_qp__qp_numbers_are_of_the_device) {
  const Context other = open_device();
  const Pd other_pd(ibv_alloc_pd(other.get()));
  const Cq other_cq(ibv_create_cq(other.get(), 4, nullptr, nullptr, 0));
  ibv_qp_init_attr attr = small_rc(other_cq.get());
  const Qp there(ibv_create_qp(other_pd.get(), &attr));
  const Qp here = make_qp(init());
  ASSERT_NE(there, nullptr);
  EXPECT_NE(there->qp_num, here->qp_num);
}

TEST_F(ShimQueuePair, ece__is_not_supported) {
  const Qp qp = make_qp(init());
  ibv_ece ece{};
  EXPECT_EQ(ibv_query_ece(qp.get(), &ece), EOPNOTSUPP);
  EXPECT_EQ(ibv_set_ece(qp.get(), &ece), EOPNOTSUPP);
}

TEST_F(QueuePair, attach_mcast__is_for_datagrams_only) {
  const Qp qp = make_qp(init());
  ibv_gid group{};
  group.raw[0] = 0xff;
  EXPECT_EQ(ibv_attach_mcast(qp.get(), &group, 0), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(qp.get(), &group, 0), EINVAL);
}

}  // namespace
}  // namespace roci::abi
