// UD and UC as a program meets them: posting both ways, what completions say, answering a datagram, multicast.
#include <array>
#include <cstring>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

constexpr std::uint32_t kQkey = 0x1ee7;
constexpr std::size_t kGrhBytes = 40;

class Datagrams : public Client {
 protected:
  struct Side {
    Cq cq;
    Qp qp;
    std::array<std::uint8_t, 512> memory{};
    Mr mr;

    ibv_sge sge(std::uint32_t bytes) {
      return {.addr = reinterpret_cast<std::uintptr_t>(memory.data()), .length = bytes, .lkey = mr->lkey};
    }
    void receive() {
      ibv_sge all = sge(memory.size());
      ibv_recv_wr wr = receive_request(1, &all, 1);
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_recv(qp.get(), &wr, &bad), 0);
    }
  };

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Client::SetUp());
    for (Side* side : {&local_, &remote_}) {
      side->cq = make_cq();
      side->mr = make_mr(side->memory.data(), side->memory.size());
      ibv_qp_init_attr_ex attr{};
      attr.send_cq = attr.recv_cq = side->cq.get();
      attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 16};
      attr.qp_type = IBV_QPT_UD;
      attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.pd = pd();
      attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
      side->qp.reset(ibv_create_qp_ex(context(), &attr));
      ASSERT_NE(side->qp, nullptr);
      bring_up_datagrams(side->qp.get());
    }
    ibv_ah_attr attr = good_attributes(IBV_QPS_RTR).ah_attr;
    ah_.reset(ibv_create_ah(pd(), &attr));
    ASSERT_NE(ah_, nullptr);
  }
  static void bring_up_datagrams(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }

  ibv_send_wr datagram(ibv_sge* sge, ibv_ah* ah, std::uint32_t qpn) {
    ibv_send_wr wr = send_request(2, sge, 1);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = kQkey;
    return wr;
  }
  static int post(const Side& side, ibv_send_wr& wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(side.qp.get(), &wr, &bad);
  }

  Side local_;
  Side remote_;
  Ah ah_;
};

class ShimDatagrams : public Datagrams {};

TEST_F(Datagrams, receive__tells_who_sent_it_and_can_be_answered) {
  std::memcpy(local_.memory.data(), "question", 8);
  remote_.receive();
  ibv_sge question = local_.sge(8);
  ibv_send_wr wr = datagram(&question, ah_.get(), remote_.qp->qp_num);
  ASSERT_EQ(post(local_, wr), 0);
  ASSERT_EQ(wait_for_completions(local_.cq.get(), 1).at(0).status, IBV_WC_SUCCESS);
  std::vector<ibv_wc> received = wait_for_completions(remote_.cq.get(), 1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(received[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(received[0].src_qp, local_.qp->qp_num);
  EXPECT_EQ(received[0].qp_num, remote_.qp->qp_num);
  EXPECT_EQ(received[0].byte_len, kGrhBytes + 8);
  EXPECT_EQ(received[0].wc_flags, unsigned{IBV_WC_GRH});
  EXPECT_EQ(std::memcmp(remote_.memory.data() + kGrhBytes, "question", 8), 0);

  auto* grh = reinterpret_cast<ibv_grh*>(remote_.memory.data());
  const Ah back(ibv_create_ah_from_wc(pd(), &received[0], grh, 1));
  ASSERT_NE(back, nullptr);
  local_.receive();
  ibv_sge answer = remote_.sge(4);
  wr = datagram(&answer, back.get(), received[0].src_qp);
  ASSERT_EQ(post(remote_, wr), 0);
  EXPECT_EQ(wait_for_completions(local_.cq.get(), 1).at(0).src_qp, remote_.qp->qp_num);
}

TEST_F(Datagrams, extended_interfaces__send_with_immediate_and_read_the_completion) {
  remote_.receive();
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(local_.qp.get());
  ASSERT_NE(qp, nullptr);
  ibv_wr_start(qp);
  qp->wr_id = 9;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(qp, 0x01020304);
  ibv_wr_set_ud_addr(qp, ah_.get(), remote_.qp->qp_num, kQkey);
  char text[] = "rocinante";
  ibv_wr_set_inline_data(qp, text, sizeof text);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  const auto received = wait_for_completions(remote_.cq.get(), 1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wc_flags, unsigned{IBV_WC_GRH} | unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(received[0].imm_data, 0x01020304u);
  EXPECT_EQ(std::memcmp(remote_.memory.data() + kGrhBytes, "rocinante", 9), 0);
}

TEST_F(Datagrams, extended_poll__tells_source_flags_and_service_level) {
  ibv_cq_init_attr_ex init{};
  init.cqe = 8;
  init.wc_flags = IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SL;
  const CqEx cq(ibv_create_cq_ex(context(), &init));
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr attr = small_rc(ibv_cq_ex_to_cq(cq.get()));
  attr.qp_type = IBV_QPT_UD;
  Side side;
  side.mr = make_mr(side.memory.data(), side.memory.size());
  side.qp = make_qp(attr);
  bring_up_datagrams(side.qp.get());
  side.receive();
  ibv_sge sge = local_.sge(5);
  ibv_send_wr wr = datagram(&sge, ah_.get(), side.qp->qp_num);
  ASSERT_EQ(post(local_, wr), 0);
  ASSERT_EQ(wait_for_completions(local_.cq.get(), 1).size(), 1u);
  ibv_poll_cq_attr poll{};
  while (ibv_start_poll(cq.get(), &poll) == ENOENT) {
  }
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_src_qp(cq.get()), local_.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_qp_num(cq.get()), side.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_byte_len(cq.get()), kGrhBytes + 5);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq.get()), unsigned{IBV_WC_GRH});
  EXPECT_EQ(ibv_wc_read_slid(cq.get()), 0u);
  ibv_end_poll(cq.get());
  side.qp.reset();
}

/// UCX drops datagrams whose low bits say otherwise: 2 is IPv4.
TEST_F(ShimDatagrams, completion__service_level_tells_the_network_header) {
  remote_.receive();
  ibv_sge sge = local_.sge(5);
  ibv_send_wr wr = datagram(&sge, ah_.get(), remote_.qp->qp_num);
  ASSERT_EQ(post(local_, wr), 0);
  EXPECT_EQ(wait_for_completions(remote_.cq.get(), 1).at(0).sl & 7, 2);
}

TEST_F(ShimDatagrams, post_send__without_an_address_is_invalid) {
  ibv_sge sge = local_.sge(5);
  ibv_send_wr wr = datagram(&sge, nullptr, remote_.qp->qp_num);
  EXPECT_EQ(post(local_, wr), EINVAL);
}

TEST_F(ShimDatagrams, multicast__reaches_the_members_of_this_host) {
  ibv_gid group{};
  const std::uint8_t address[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
  std::memcpy(group.raw, address, sizeof address);
  ASSERT_EQ(ibv_attach_mcast(remote_.qp.get(), &group, 0), 0);
  remote_.receive();
  ibv_ah_attr attr = good_attributes(IBV_QPS_RTR).ah_attr;
  attr.grh.dgid = group;
  const Ah ah(ibv_create_ah(pd(), &attr));
  ASSERT_NE(ah, nullptr);
  ibv_sge sge = local_.sge(16);
  constexpr std::uint32_t kMulticastQpn = 0xffffff;
  ibv_send_wr wr = datagram(&sge, ah.get(), kMulticastQpn);
  ASSERT_EQ(post(local_, wr), 0);
  EXPECT_EQ(wait_for_completions(remote_.cq.get(), 1).at(0).byte_len, kGrhBytes + 16);
  EXPECT_EQ(ibv_detach_mcast(remote_.qp.get(), &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(remote_.qp.get(), &group, 0), EINVAL);
}

TEST_F(ShimDatagrams, query_device__has_room_for_multicast) {
  EXPECT_GT(limits().max_mcast_grp, 0);
  EXPECT_GT(limits().max_mcast_qp_attach, 0);
  EXPECT_GE(limits().max_total_mcast_qp_attach, limits().max_mcast_qp_attach);
}

TEST_F(Datagrams, modify_qp__to_init_needs_a_q_key) {
  ibv_qp_init_attr attr = small_rc(local_.cq.get());
  attr.qp_type = IBV_QPT_UD;
  const Qp qp = make_qp(attr);
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &init, kToInit), EINVAL);
}

class Unacknowledged : public Client {};

TEST_F(Unacknowledged, write__between_two_qps_of_one_process) {
  const Cq cq = make_cq();
  ibv_qp_init_attr attr = small_rc(cq.get());
  attr.qp_type = IBV_QPT_UC;
  const Qp from = make_qp(attr);
  const Qp to = make_qp(attr);
  for (const auto& [qp, peer] : {std::pair{from.get(), to.get()}, std::pair{to.get(), from.get()}}) {
    ibv_qp_attr step = good_attributes(IBV_QPS_INIT);
    step.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    ASSERT_EQ(ibv_modify_qp(qp, &step, kToInit), 0);
    step = good_attributes(IBV_QPS_RTR, peer->qp_num);
    ASSERT_EQ(ibv_modify_qp(qp, &step, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
              0);
    step = good_attributes(IBV_QPS_RTS);
    ASSERT_EQ(ibv_modify_qp(qp, &step, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  std::array<std::uint8_t, 3000> source{};
  std::array<std::uint8_t, 3000> target{};
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint8_t>(i * 5);
  const Mr source_mr = make_mr(source.data(), source.size());
  const Mr target_mr = make_mr(target.data(), target.size());
  ibv_recv_wr receive = receive_request(4, nullptr, 0);
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(to.get(), &receive, &bad_receive), 0);
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(source.data()), .length = 3000, .lkey = source_mr->lkey};
  ibv_send_wr wr = send_request(3, &sge, 1);
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = 77;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(target.data());
  wr.wr.rdma.rkey = target_mr->rkey;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(from.get(), &wr, &bad), 0);
  const auto completions = wait_for_completions(cq.get(), 2);
  ASSERT_EQ(completions.size(), 2u);
  for (const ibv_wc& wc : completions) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM) continue;
    EXPECT_EQ(wc.imm_data, 77u);
    EXPECT_EQ(wc.byte_len, 3000u);
  }
  EXPECT_EQ(source, target);
  wr.opcode = IBV_WR_RDMA_READ;
  EXPECT_EQ(ibv_post_send(from.get(), &wr, &bad), EINVAL);
}

}  // namespace
}  // namespace roci::abi
