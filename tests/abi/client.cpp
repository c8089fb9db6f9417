#include "tests/abi/client.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

namespace roci::abi {

Context open_device() {
  const std::string link = "cable:abi-" + std::to_string(getpid());
  setenv("ROCI_LINK", link.c_str(), 0);
  ibv_device** devices = ibv_get_device_list(nullptr);
  ibv_context* context = devices == nullptr || devices[0] == nullptr ? nullptr : ibv_open_device(devices[0]);
  ibv_free_device_list(devices);
  return Context(context);
}

std::vector<ibv_wc> wait_for_completions(ibv_cq* cq, std::size_t count) {
  // A hang becomes a failure; no test depends on the time.
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::vector<ibv_wc> all;
  while (all.size() < count && std::chrono::steady_clock::now() < patience) {
    ibv_wc wc{};
    if (ibv_poll_cq(cq, 1, &wc) == 1) all.push_back(wc);
  }
  return all;
}

ibv_recv_wr receive_request(std::uint64_t wr_id, ibv_sge* sges, int count, ibv_recv_wr* next) {
  return {.wr_id = wr_id, .next = next, .sg_list = sges, .num_sge = count};
}

ibv_send_wr send_request(std::uint64_t wr_id, ibv_sge* sges, int count, ibv_send_wr* next) {
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.next = next;
  wr.sg_list = sges;
  wr.num_sge = count;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  return wr;
}

namespace {

bool is_ipv4_mapped(const ibv_gid& gid) {
  constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

}  // namespace

void Client::SetUp() {
  context_ = open_device();
  ASSERT_NE(context_, nullptr) << "no RDMA device: " << std::strerror(errno);
  ASSERT_EQ(ibv_query_device(context(), &limits_), 0);
  pd_.reset(ibv_alloc_pd(context()));
  ASSERT_NE(pd_, nullptr);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context(), 1, &port), 0);
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context(), 1, static_cast<std::uint32_t>(i), &entry, 0) != 0) continue;
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || !is_ipv4_mapped(entry.gid)) continue;
    gid_index_ = static_cast<std::uint8_t>(i);
    gid_ = entry.gid;
    return;
  }
  FAIL() << "the port has no IPv4 address";
}

Cq Client::make_cq(int entries, ibv_comp_channel* channel) {
  Cq cq(ibv_create_cq(context(), entries, nullptr, channel, 0));
  EXPECT_NE(cq, nullptr);
  return cq;
}

Mr Client::make_mr(void* memory, std::size_t bytes, int access) {
  Mr mr(ibv_reg_mr(pd(), memory, bytes, access));
  EXPECT_NE(mr, nullptr);
  return mr;
}

ibv_qp_init_attr Client::small_rc(ibv_cq* cq) {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 16};
  attr.qp_type = IBV_QPT_RC;
  return attr;
}

Qp Client::make_qp(ibv_qp_init_attr attr) {
  Qp qp(ibv_create_qp(pd(), &attr));
  EXPECT_NE(qp, nullptr);
  return qp;
}

ibv_qp_attr Client::good_attributes(ibv_qp_state state, std::uint32_t dest_qpn) const {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = dest_qpn;
  attr.rq_psn = attr.sq_psn = 0x12345;
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
  // Times and counts that make a test of giving up short: 4.096 us x 2^12 twice, 10 us for RNR.
  attr.min_rnr_timer = 1;
  attr.timeout = 12;
  attr.retry_cnt = 1;
  attr.rnr_retry = 0;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid();
  attr.ah_attr.grh.sgid_index = gid_index();
  attr.ah_attr.grh.hop_limit = 64;
  return attr;
}

void Client::bring_up(ibv_qp* qp, ibv_qp_state state, std::uint32_t dest_qpn) const {
  struct Step {
    ibv_qp_state state;
    int mask;
  };
  for (const Step step : {Step{IBV_QPS_INIT, kToInit}, {IBV_QPS_RTR, kToRtr}, {IBV_QPS_RTS, kToRts}}) {
    if (step.state > state) return;
    ibv_qp_attr attr = good_attributes(step.state, dest_qpn);
    ASSERT_EQ(ibv_modify_qp(qp, &attr, step.mask), 0) << "to state " << step.state;
  }
}

int Client::move_to(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

ibv_qp_state Client::state_of(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  return attr.qp_state;
}

void Connected::SetUp() {
  ASSERT_NO_FATAL_FAILURE(Client::SetUp());
  for (Side* side : {&local, &remote}) {
    side->cq = make_cq();
    side->qp = make_qp(small_rc(side->cq.get()));
    side->memory.resize(kMemoryBytes);
    side->mr = make_mr(side->memory.data(), kMemoryBytes);
    ASSERT_NE(side->qp, nullptr);
  }
  bring_up(local.qp.get(), IBV_QPS_RTS, remote.qp->qp_num);
  bring_up(remote.qp.get(), IBV_QPS_RTS, local.qp->qp_num);
}

ibv_wc_status Connected::Side::next_status() const {
  const std::vector<ibv_wc> completions = wait_for_completions(cq.get(), 1);
  return completions.empty() ? IBV_WC_GENERAL_ERR : completions.front().status;
}

}  // namespace roci::abi
