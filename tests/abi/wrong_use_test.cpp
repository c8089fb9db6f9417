// Each argument of each call wrong in turn: the errno that verbs gives, and nothing changed.
#include <array>
#include <functional>
#include <tuple>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

template <class Call>
int errno_of(Call call) {
  errno = 0;
  call();
  return errno;
}

// Member by member: what lies between the members of a C structure is anything.
auto members(const ibv_qp_cap& cap) {
  return std::tuple(cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data);
}

auto members(const ibv_ah_attr& way) {
  return std::tuple(std::to_array(way.grh.dgid.raw), way.grh.flow_label, way.grh.sgid_index, way.grh.hop_limit,
                    way.grh.traffic_class, way.dlid, way.sl, way.src_path_bits, way.static_rate, way.is_global,
                    way.port_num);
}

auto members(const ibv_qp_attr& qp) {
  return std::tuple(qp.qp_state, qp.cur_qp_state, qp.path_mtu, qp.path_mig_state, qp.qkey, qp.rq_psn, qp.sq_psn,
                    qp.dest_qp_num, qp.qp_access_flags, members(qp.cap), members(qp.ah_attr), qp.pkey_index,
                    qp.en_sqd_async_notify, qp.sq_draining, qp.max_rd_atomic, qp.max_dest_rd_atomic, qp.min_rnr_timer,
                    qp.port_num, qp.timeout, qp.retry_cnt, qp.rnr_retry, qp.rate_limit);
}

auto members(const ibv_qp_init_attr& init) {
  return std::tuple(init.qp_context, init.send_cq, init.recv_cq, init.srq, members(init.cap), init.qp_type,
                    init.sq_sig_all);
}

auto members(const ibv_srq_attr& srq) { return std::tuple(srq.max_wr, srq.max_sge, srq.srq_limit); }

/// All that a client can see of its objects.
struct Seen {
  ibv_qp_attr qp{};
  ibv_qp_init_attr init{};
  ibv_srq_attr srq{};
  int cqe = 0;
  std::array<std::uint64_t, 6> rest{};

  bool operator==(const Seen& other) const {
    return members(qp) == members(other.qp) && members(init) == members(other.init) &&
           members(srq) == members(other.srq) && cqe == other.cqe && rest == other.rest;
  }
};

struct Misuse {
  const char* call;
  const char* argument;
  int error;
  std::function<int()> use;
};

class ShimWrongUse : public Connected {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Connected::SetUp());
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = 4, .max_sge = 2, .srq_limit = 77};
    srq.reset(ibv_create_srq(pd(), &attr));
    mw.reset(ibv_alloc_mw(pd(), IBV_MW_TYPE_1));
    mw_2.reset(ibv_alloc_mw(pd(), IBV_MW_TYPE_2));
    idle = make_qp(small_rc(local.cq.get()));
    other = open_device();
    other_pd.reset(ibv_alloc_pd(other.get()));
    other_cq.reset(ibv_create_cq(other.get(), 4, nullptr, nullptr, 0));
    other_channel.reset(ibv_create_comp_channel(other.get()));
    ASSERT_TRUE(srq && mw && mw_2 && idle && other_pd && other_cq && other_channel);
  }

  Seen look() {
    Seen seen;
    EXPECT_EQ(ibv_query_qp(local.qp.get(), &seen.qp, IBV_QP_STATE, &seen.init), 0);
    EXPECT_EQ(ibv_query_srq(srq.get(), &seen.srq), 0);
    seen.cqe = local.cq->cqe;
    ibv_wc wc{};
    seen.rest = {local.mr->rkey,
                 local.mr->length,
                 mw->rkey,
                 static_cast<std::uint64_t>(idle->state),
                 static_cast<std::uint64_t>(ibv_poll_cq(local.cq.get(), 1, &wc)),
                 reinterpret_cast<std::uint64_t>(local.mr->pd)};
    return seen;
  }

  /// All of `misuses`; then a WRITE, which must still work.
  void expect_refused(const std::vector<Misuse>& misuses) {
    const Seen before = look();
    for (const Misuse& misuse : misuses) {
      EXPECT_EQ(misuse.use(), misuse.error) << misuse.call << ": " << misuse.argument;
      EXPECT_TRUE(look() == before) << misuse.call << ": " << misuse.argument;
    }
    EXPECT_EQ(send([](auto& wr) { wr.opcode = IBV_WR_RDMA_WRITE; }), 0);
    EXPECT_EQ(local.next_status(), IBV_WC_SUCCESS);
  }

  // Calls with one wrong argument each; they give the error.
  int cq(int entries, ibv_comp_channel* channel, int vector) {
    return error_of<Cq>([&] { return ibv_create_cq(context(), entries, nullptr, channel, vector); });
  }
  int qp(const std::function<void(ibv_qp_init_attr&)>& spoil) {
    ibv_qp_init_attr attr = small_rc(local.cq.get());
    spoil(attr);
    return error_of<Qp>([&] { return ibv_create_qp(pd(), &attr); });
  }
  int modify(int mask, const std::function<void(ibv_qp_attr&)>& spoil) {
    ibv_qp_attr attr = good_attributes(IBV_QPS_RTS, remote.qp->qp_num);
    spoil(attr);
    return ibv_modify_qp(local.qp.get(), &attr, mask);
  }
  int new_srq(std::uint32_t max_wr, std::uint32_t max_sge) {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = max_wr, .max_sge = max_sge, .srq_limit = 0};
    return error_of<Srq>([&] { return ibv_create_srq(pd(), &attr); });
  }
  int modify_srq(std::uint32_t limit, int mask) {
    ibv_srq_attr attr{.max_wr = 8, .max_sge = 0, .srq_limit = limit};
    return ibv_modify_srq(srq.get(), &attr, mask);
  }
  int mr(void* addr, std::size_t bytes, int access) {
    return error_of<Mr>([&] { return ibv_reg_mr(pd(), addr, bytes, access); });
  }
  int rereg(int flags, ibv_pd* to, void* addr, std::size_t bytes, int access) {
    return errno_of(
        [&] { EXPECT_EQ(ibv_rereg_mr(local.mr.get(), flags, to, addr, bytes, access), IBV_REREG_MR_ERR_INPUT); });
  }
  int ah(const std::function<void(ibv_ah_attr&)>& spoil) {
    ibv_ah_attr attr = good_attributes(IBV_QPS_RTR).ah_attr;
    spoil(attr);
    return error_of<Ah>([&] { return ibv_create_ah(pd(), &attr); });
  }
  int send(const std::function<void(ibv_send_wr&)>& spoil) {
    std::array<ibv_sge, 3> sges{local.sge(8), local.sge(8), local.sge(8)};
    ibv_send_wr wr = send_request(1, sges.data(), 1);
    wr.wr.rdma = {.remote_addr = remote.address(), .rkey = remote.mr->rkey};
    spoil(wr);
    return local.post(wr);
  }
  int receive(ibv_qp* to, int num_sge) {
    std::array<ibv_sge, 3> sges{local.sge(8), local.sge(8), local.sge(8)};
    ibv_recv_wr wr = receive_request(1, sges.data(), num_sge);
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(to, &wr, &bad);
  }
  int srq_receive(int num_sge) {
    std::array<ibv_sge, 3> sges{local.sge(8), local.sge(8), local.sge(8)};
    ibv_recv_wr wr = receive_request(1, sges.data(), num_sge);
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq.get(), &wr, &bad);
  }
  int bind(ibv_mw* window, unsigned send_flags, const std::function<void(ibv_mw_bind_info&)>& spoil) {
    ibv_mw_bind wanted{.wr_id = 1, .send_flags = send_flags, .bind_info = {}};
    wanted.bind_info = {.mr = local.mr.get(), .addr = local.address(), .length = 8, .mw_access_flags = 0};
    spoil(wanted.bind_info);
    return ibv_bind_mw(local.qp.get(), window, &wanted);
  }

  Srq srq;
  Mw mw;
  Mw mw_2;
  Qp idle;
  Context other;
  Pd other_pd;
  Cq other_cq;
  Channel other_channel;
};

TEST_F(ShimWrongUse, queries) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context(), 1, &port), 0);
  const int gids = port.gid_tbl_len;
  const auto past_gids = static_cast<std::uint32_t>(gids);
  ibv_gid gid_out{};
  ibv_gid_entry entry{};
  __be16 pkey = 0;
  ibv_values_ex values{.comp_mask = 1u << 9, .raw_clock = {}};
  ibv_query_device_ex_input input{.comp_mask = 1};
  ibv_device_attr_ex device_ex{};
  expect_refused({
      {"query_port", "port 0", EINVAL, [&] { return ibv_query_port(context(), 0, &port); }},
      {"query_port", "port 2", EINVAL, [&] { return ibv_query_port(context(), 2, &port); }},
      {"query_gid", "port", EINVAL, [&] { return errno_of([&] { ibv_query_gid(context(), 2, 0, &gid_out); }); }},
      {"query_gid", "index", EINVAL, [&] { return errno_of([&] { ibv_query_gid(context(), 1, gids, &gid_out); }); }},
      {"query_gid", "index -1", EINVAL, [&] { return errno_of([&] { ibv_query_gid(context(), 1, -1, &gid_out); }); }},
      {"query_gid_ex", "port", EINVAL, [&] { return ibv_query_gid_ex(context(), 2, 0, &entry, 0); }},
      {"query_gid_ex", "index", EINVAL, [&] { return ibv_query_gid_ex(context(), 1, past_gids, &entry, 0); }},
      {"query_gid_ex", "flags", EINVAL, [&] { return ibv_query_gid_ex(context(), 1, 0, &entry, 1); }},
      {"query_gid_table", "room", EINVAL, [&] { return -int(ibv_query_gid_table(context(), &entry, 0, 0)); }},
      {"query_gid_table", "flags", EINVAL, [&] { return -int(ibv_query_gid_table(context(), &entry, 1, 1)); }},
      {"query_pkey", "port", EINVAL, [&] { return errno_of([&] { ibv_query_pkey(context(), 2, 0, &pkey); }); }},
      {"query_pkey", "index", EINVAL, [&] { return errno_of([&] { ibv_query_pkey(context(), 1, 1, &pkey); }); }},
      {"get_pkey_index", "key", EINVAL, [&] { return errno_of([&] { ibv_get_pkey_index(context(), 1, 0x1234); }); }},
      {"get_pkey_index", "port", EINVAL, [&] { return errno_of([&] { ibv_get_pkey_index(context(), 2, 0xffff); }); }},
      {"query_device_ex", "input", EINVAL, [&] { return ibv_query_device_ex(context(), &input, &device_ex); }},
      {"query_rt_values_ex", "mask", EINVAL, [&] { return ibv_query_rt_values_ex(context(), &values); }},
  });
}

TEST_F(ShimWrongUse, completion_queues_and_domains) {
  const ibv_device_attr& most = limits();
  ibv_wc wc{};
  expect_refused({
      {"create_cq", "entries 0", EINVAL, [&] { return cq(0, nullptr, 0); }},
      {"create_cq", "entries -1", EINVAL, [&] { return cq(-1, nullptr, 0); }},
      {"create_cq", "entries", EINVAL, [&] { return cq(most.max_cqe + 1, nullptr, 0); }},
      {"create_cq", "vector", EINVAL, [&] { return cq(1, nullptr, context()->num_comp_vectors); }},
      {"create_cq", "vector -1", EINVAL, [&] { return cq(1, nullptr, -1); }},
      {"create_cq", "channel of another context", EINVAL, [&] { return cq(1, other_channel.get(), 0); }},
      {"resize_cq", "entries 0", EINVAL, [&] { return ibv_resize_cq(local.cq.get(), 0); }},
      {"resize_cq", "entries -1", EINVAL, [&] { return ibv_resize_cq(local.cq.get(), -1); }},
      {"resize_cq", "entries", EINVAL, [&] { return ibv_resize_cq(local.cq.get(), most.max_cqe + 1); }},
      {"destroy_cq", "in use", EBUSY, [&] { return ibv_destroy_cq(local.cq.get()); }},
      {"poll_cq", "count", EINVAL, [&] { return -ibv_poll_cq(local.cq.get(), -1, &wc); }},
      {"dealloc_pd", "in use", EBUSY, [&] { return ibv_dealloc_pd(pd()); }},
  });
}

TEST_F(ShimWrongUse, memory) {
  constexpr int kMove = IBV_REREG_MR_CHANGE_TRANSLATION;
  constexpr int kWrite = IBV_ACCESS_REMOTE_WRITE;
  std::vector<std::uint8_t> memory(64);
  expect_refused({
      {"reg_mr", "address", EFAULT, [&] { return mr(nullptr, 64, 0); }},
      {"reg_mr", "length", EINVAL, [&] { return mr(memory.data(), SIZE_MAX, 0); }},
      {"reg_mr", "access", EINVAL, [&] { return mr(memory.data(), 64, 1 << 19); }},
      {"reg_mr", "remote write alone", EINVAL, [&] { return mr(memory.data(), 64, kWrite); }},
      {"reg_mr", "atomic alone", EINVAL, [&] { return mr(memory.data(), 64, IBV_ACCESS_REMOTE_ATOMIC); }},
      {"rereg_mr", "flags 0", EINVAL, [&] { return rereg(0, nullptr, nullptr, 0, 0); }},
      {"rereg_mr", "flags", EINVAL, [&] { return rereg(1 << 10, nullptr, nullptr, 0, 0); }},
      {"rereg_mr", "PD null", EINVAL, [&] { return rereg(IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0); }},
      {"rereg_mr", "PD", EINVAL, [&] { return rereg(IBV_REREG_MR_CHANGE_PD, other_pd.get(), nullptr, 0, 0); }},
      {"rereg_mr", "address", EINVAL, [&] { return rereg(kMove, nullptr, nullptr, 64, 0); }},
      {"rereg_mr", "length 0", EINVAL, [&] { return rereg(kMove, nullptr, memory.data(), 0, 0); }},
      {"rereg_mr", "length", EINVAL, [&] { return rereg(kMove, nullptr, memory.data(), SIZE_MAX, 0); }},
      {"rereg_mr", "access", EINVAL, [&] { return rereg(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kWrite); }},
  });
}

TEST_F(ShimWrongUse, windows) {
  const auto nothing = [](auto&) {};
  expect_refused({
      {"alloc_mw", "type", EINVAL,
       [&] { return error_of<Mw>([&] { return ibv_alloc_mw(pd(), static_cast<ibv_mw_type>(3)); }); }},
      {"bind_mw", "window of type 2", EINVAL, [&] { return bind(mw_2.get(), 0, nothing); }},
      {"bind_mw", "flags", EINVAL, [&] { return bind(mw.get(), IBV_SEND_INLINE, nothing); }},
      {"bind_mw", "no region", EINVAL, [&] { return bind(mw.get(), 0, [](auto& info) { info.mr = nullptr; }); }},
      {"bind_mw", "rights", EINVAL,
       [&] { return bind(mw.get(), 0, [](auto& info) { info.mw_access_flags = IBV_ACCESS_MW_BIND; }); }},
  });
}

TEST_F(ShimWrongUse, shared_receive_queues) {
  const unsigned over_srq_wr = static_cast<unsigned>(limits().max_srq_wr) + 1;
  const unsigned over_srq_sge = static_cast<unsigned>(limits().max_srq_sge) + 1;
  expect_refused({
      {"create_srq", "max_wr 0", EINVAL, [&] { return new_srq(0, 1); }},
      {"create_srq", "max_wr", EINVAL, [&] { return new_srq(over_srq_wr, 1); }},
      {"create_srq", "max_sge", EINVAL, [&] { return new_srq(1, over_srq_sge); }},
      {"modify_srq", "limit", EINVAL, [&] { return modify_srq(5, IBV_SRQ_LIMIT); }},
      {"modify_srq", "mask", EINVAL, [&] { return modify_srq(1, IBV_SRQ_LIMIT | 1 << 8); }},
      {"modify_srq", "max_wr", EOPNOTSUPP, [&] { return modify_srq(1, IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR); }},
  });
}

TEST_F(ShimWrongUse, queue_pairs) {
  const unsigned over_sge = static_cast<unsigned>(limits().max_sge) + 1;
  const unsigned over_wr = static_cast<unsigned>(limits().max_qp_wr) + 1;
  const auto nothing = [](auto&) {};
  expect_refused({
      {"create_qp", "send CQ", EINVAL, [&] { return qp([](auto& a) { a.send_cq = nullptr; }); }},
      {"create_qp", "receive CQ", EINVAL, [&] { return qp([](auto& a) { a.recv_cq = nullptr; }); }},
      {"create_qp", "CQ of another context", EINVAL, [&] { return qp([&](auto& a) { a.send_cq = other_cq.get(); }); }},
      {"create_qp", "type", EOPNOTSUPP, [&] { return qp([](auto& a) { a.qp_type = IBV_QPT_RAW_PACKET; }); }},
      {"create_qp", "max_send_wr", EINVAL, [&] { return qp([&](auto& a) { a.cap.max_send_wr = over_wr; }); }},
      {"create_qp", "max_recv_wr", EINVAL, [&] { return qp([&](auto& a) { a.cap.max_recv_wr = over_wr; }); }},
      {"create_qp", "max_send_sge", EINVAL, [&] { return qp([&](auto& a) { a.cap.max_send_sge = over_sge; }); }},
      {"create_qp", "max_recv_sge", EINVAL, [&] { return qp([&](auto& a) { a.cap.max_recv_sge = over_sge; }); }},
      {"create_qp", "max_inline_data", EINVAL, [&] { return qp([](auto& a) { a.cap.max_inline_data = 1 << 20; }); }},
      {"modify_qp", "state", EINVAL, [&] { return modify(IBV_QP_STATE, [](auto& a) { a.qp_state = IBV_QPS_INIT; }); }},
      {"modify_qp", "no state", EINVAL,
       [&] { return modify(IBV_QP_STATE, [](auto& a) { a.qp_state = static_cast<ibv_qp_state>(256 + 6); }); }},
      {"modify_qp", "current state", EINVAL,
       [&] { return modify(IBV_QP_CUR_STATE, [](auto& a) { a.cur_qp_state = IBV_QPS_RTR; }); }},
      {"modify_qp", "mask", EINVAL, [&] { return modify(1 << 30, nothing); }},
      {"modify_qp", "attribute of another step", EINVAL, [&] { return modify(IBV_QP_RQ_PSN, nothing); }},
      {"modify_qp", "capacity", EOPNOTSUPP, [&] { return modify(IBV_QP_CAP, nothing); }},
      {"modify_qp", "RNR timer", EINVAL,
       [&] { return modify(IBV_QP_MIN_RNR_TIMER, [](auto& a) { a.min_rnr_timer = 32; }); }},
      {"attach_mcast", "QP type", EINVAL, [&] { return ibv_attach_mcast(local.qp.get(), &gid(), 0); }},
      {"detach_mcast", "QP type", EINVAL, [&] { return ibv_detach_mcast(local.qp.get(), &gid(), 0); }},
  });
}

TEST_F(ShimWrongUse, addresses) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context(), 1, &port), 0);
  const auto past_gids = static_cast<std::uint8_t>(port.gid_tbl_len);
  ibv_wc wc{};
  ibv_grh grh{};
  ibv_ah_attr ah_out{};
  expect_refused({
      {"create_ah", "no GRH", EINVAL, [&] { return ah([](auto& a) { a.is_global = 0; }); }},
      {"create_ah", "port", EINVAL, [&] { return ah([](auto& a) { a.port_num = 2; }); }},
      {"create_ah", "source", EINVAL, [&] { return ah([&](auto& a) { a.grh.sgid_index = past_gids; }); }},
      {"create_ah", "no destination", EINVAL, [&] { return ah([](auto& a) { a.grh.dgid = {}; }); }},
      {"init_ah_from_wc", "port", EINVAL,
       [&] { return errno_of([&] { ibv_init_ah_from_wc(context(), 2, &wc, &grh, &ah_out); }); }},
      {"create_ah_from_wc", "no GRH", EINVAL,
       [&] { return error_of<Ah>([&] { return ibv_create_ah_from_wc(pd(), &wc, &grh, 1); }); }},
  });
}

TEST_F(ShimWrongUse, send_requests) {
  expect_refused({
      {"post_send", "opcode", EINVAL, [&] { return send([](auto& w) { w.opcode = static_cast<ibv_wr_opcode>(77); }); }},
      {"post_send", "flags", EINVAL, [&] { return send([](auto& w) { w.send_flags = 1u << 20; }); }},
      {"post_send", "elements -1", EINVAL, [&] { return send([](auto& w) { w.num_sge = -1; }); }},
      {"post_send", "elements", EINVAL, [&] { return send([](auto& w) { w.num_sge = 3; }); }},
      {"post_send", "inline elements", EINVAL,
       [&] {
         return send([](auto& w) {
           w.num_sge = 3;
           w.send_flags = IBV_SEND_INLINE;
           for (int i = 0; i < 3; ++i) w.sg_list[i].length = 1;
         });
       }},
      {"post_send", "inline bytes", EINVAL,
       [&] {
         return send([](auto& w) {
           w.sg_list[0].length = 17;
           w.send_flags = IBV_SEND_INLINE;
         });
       }},
      {"post_send", "inline READ", EINVAL,
       [&] {
         return send([](auto& w) {
           w.opcode = IBV_WR_RDMA_READ;
           w.send_flags = IBV_SEND_INLINE;
         });
       }},
      {"post_send", "length", EINVAL,
       [&] {
         return send([](auto& w) {
           w.num_sge = 2;
           w.sg_list[0].length = 1u << 31;
         });
       }},
      {"post_send", "atomic's element", EINVAL,
       [&] {
         return send([](auto& w) {
           w.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
           w.sg_list[0].length = 7;
         });
       }},
  });
}

TEST_F(ShimWrongUse, receive_requests) {
  expect_refused({
      {"post_recv", "elements -1", EINVAL, [&] { return receive(local.qp.get(), -1); }},
      {"post_recv", "elements", EINVAL, [&] { return receive(local.qp.get(), 3); }},
      {"post_recv", "state", EINVAL, [&] { return receive(idle.get(), 1); }},
      {"post_srq_recv", "elements -1", EINVAL, [&] { return srq_receive(-1); }},
      {"post_srq_recv", "elements", EINVAL, [&] { return srq_receive(3); }},
  });
}

TEST_F(ShimWrongUse, create_srq__what_stands_for_the_limit_means_nothing) { EXPECT_EQ(look().srq.srq_limit, 0u); }

/// At the limits all is granted, in full.
TEST_F(ShimWrongUse, limits__are_granted) {
  const ibv_device_attr& most = limits();
  EXPECT_EQ(cq(most.max_cqe, nullptr, 0), 0);
  EXPECT_EQ(ibv_resize_cq(local.cq.get(), most.max_cqe), 0);
  EXPECT_EQ(new_srq(static_cast<unsigned>(most.max_srq_wr), static_cast<unsigned>(most.max_srq_sge)), 0);
  ibv_qp_init_attr attr = small_rc(local.cq.get());
  attr.cap.max_send_wr = attr.cap.max_recv_wr = static_cast<unsigned>(most.max_qp_wr);
  attr.cap.max_send_sge = attr.cap.max_recv_sge = static_cast<unsigned>(most.max_sge);
  const Qp largest(ibv_create_qp(pd(), &attr));
  ASSERT_NE(largest, nullptr);
  bring_up(largest.get(), IBV_QPS_INIT);
  ibv_qp_attr to_rtr = good_attributes(IBV_QPS_RTR);
  to_rtr.max_dest_rd_atomic = static_cast<std::uint8_t>(most.max_qp_rd_atom);
  ASSERT_EQ(ibv_modify_qp(largest.get(), &to_rtr, kToRtr), 0);
  ibv_qp_attr to_rts = good_attributes(IBV_QPS_RTS);
  to_rts.max_rd_atomic = static_cast<std::uint8_t>(most.max_qp_init_rd_atom);
  EXPECT_EQ(ibv_modify_qp(largest.get(), &to_rts, kToRts), 0);
}

/// A number too large for the enum must not be taken for one that fits.
TEST_F(ShimWrongUse, modify_qp__mtu_beyond_a_byte_is_invalid) {
  bring_up(idle.get(), IBV_QPS_INIT);
  ibv_qp_attr attr = good_attributes(IBV_QPS_RTR);
  attr.path_mtu = static_cast<ibv_mtu>(256 + IBV_MTU_1024);
  EXPECT_EQ(ibv_modify_qp(idle.get(), &attr, kToRtr), EINVAL);
}

}  // namespace
}  // namespace roci::abi
