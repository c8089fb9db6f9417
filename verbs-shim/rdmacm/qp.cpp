// QPs and SRQs of ids: made with all they need, and moved through their states as the connection goes.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/rdmacm/ids.h"

namespace roci::shim {
namespace {

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr std::uint8_t kHopLimit = 64;

bool is_connected_type(ibv_qp_type type) { return type == IBV_QPT_RC || type == IBV_QPT_UC; }

void fill_init(const CmId& id, ibv_qp_attr* attr, int* mask) {
  attr->pkey_index = 0;
  attr->port_num = 1;
  *mask = kInitMask;
  if (is_datagram(id)) {
    attr->qkey = RDMA_UDP_QKEY;
    *mask |= IBV_QP_QKEY;
    return;
  }
  attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  *mask |= IBV_QP_ACCESS_FLAGS;
}

void fill_ready_to_receive(const CmId& id, ibv_qp_attr* attr, int* mask) {
  const cm::Connection& connection = *id.connection;
  attr->ah_attr = address_attributes(id, connection.remote.address);
  attr->path_mtu = static_cast<ibv_mtu>(connection.path.path_mtu);
  attr->dest_qp_num = connection.peer.qpn.value;
  attr->rq_psn = connection.own.starting_psn.value();
  *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (id.base.qp_type == IBV_QPT_UC) return;
  attr->max_dest_rd_atomic = connection.own.responder_resources;
  attr->min_rnr_timer = 0;
  *mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

void fill_ready_to_send(const CmId& id, ibv_qp_attr* attr, int* mask) {
  const cm::Connection& connection = *id.connection;
  attr->sq_psn = connection.peer.starting_psn.value();
  *mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (id.base.qp_type == IBV_QPT_UC) return;
  // How often to ask again is what the peer says, but for the number of timeouts: that is the active side's word.
  const cm::ConnectionParameters& retries = connection.is_active ? connection.own : connection.peer;
  attr->timeout = connection.path.ack_timeout;
  attr->retry_cnt = retries.retry_count;
  attr->rnr_retry = connection.peer.rnr_retry_count;
  attr->max_rd_atomic = connection.own.initiator_depth;
  *mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

int modify(CmId& id, ibv_qp* qp, ibv_qp_attr* attr, std::uint8_t* limit = nullptr, std::uint8_t granted = 0) {
  int mask = 0;
  if (fill_qp_attr(id, attr, &mask) != 0) return -1;
  if (limit != nullptr) *limit = granted;
  return result(ibv_modify_qp(qp, attr, mask));
}

int to_init(CmId& id, ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  return modify(id, qp, &attr);
}

/// A datagram QP needs no peer: it is ready at once.
int prepare_datagram_qp(CmId& id, ibv_qp* qp) {
  if (to_init(id, qp) != 0) return -1;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  if (const int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE); error != 0) return fail(error);
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = 0;
  return result(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

int make_cq(CmId& id, std::uint32_t entries, ibv_comp_channel** channel, ibv_cq** cq) {
  *channel = ibv_create_comp_channel(id.base.verbs);
  if (*channel == nullptr) return -1;
  *cq = ibv_create_cq(id.base.verbs, static_cast<int>(std::max(entries, 1u)), &id.base, *channel, 0);
  return *cq == nullptr ? -1 : 0;
}

void destroy_cqs(CmId& id) {
  rdma_cm_id& base = id.base;
  if (base.recv_cq != nullptr) ibv_destroy_cq(base.recv_cq);
  if (base.recv_cq_channel != nullptr) ibv_destroy_comp_channel(base.recv_cq_channel);
  if (base.send_cq != nullptr) ibv_destroy_cq(base.send_cq);
  if (base.send_cq_channel != nullptr) ibv_destroy_comp_channel(base.send_cq_channel);
  base.recv_cq = base.send_cq = nullptr;
  base.recv_cq_channel = base.send_cq_channel = nullptr;
}

/// The CQs that the client did not bring.
int make_missing_cqs(CmId& id, ibv_qp_init_attr_ex* attr) {
  rdma_cm_id& base = id.base;
  if (attr->recv_cq == nullptr && base.recv_cq == nullptr &&
      make_cq(id, attr->cap.max_recv_wr, &base.recv_cq_channel, &base.recv_cq) != 0)
    return -1;
  if (attr->send_cq == nullptr && base.send_cq == nullptr &&
      make_cq(id, attr->cap.max_send_wr, &base.send_cq_channel, &base.send_cq) != 0)
    return -1;
  if (attr->recv_cq == nullptr) attr->recv_cq = base.recv_cq;
  if (attr->send_cq == nullptr) attr->send_cq = base.send_cq;
  return 0;
}

int create(CmId& id, ibv_qp_init_attr_ex* attr) {
  rdma_cm_id& base = id.base;
  if (base.qp != nullptr || base.verbs == nullptr) return fail(EINVAL);
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == nullptr) {
    attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
    attr->pd = base.pd;
  }
  if (attr->pd->context != base.verbs) return fail(EINVAL);
  if (base.srq != nullptr && attr->srq == nullptr) attr->srq = base.srq;
  if (make_missing_cqs(id, attr) != 0) return -1;
  ibv_qp* qp = ibv_create_qp_ex(base.verbs, attr);
  if (qp == nullptr) {
    const int error = errno;
    destroy_cqs(id);
    return fail(error);
  }
  base.qp_type = attr->qp_type;
  const int failed = is_connected_type(base.qp_type) ? to_init(id, qp) : prepare_datagram_qp(id, qp);
  if (failed != 0) {
    const int error = errno;
    ibv_destroy_qp(qp);
    destroy_cqs(id);
    return fail(error);
  }
  base.pd = attr->pd;
  base.qp = qp;
  return 0;
}

}  // namespace

ibv_ah_attr address_attributes(const CmId& id, const IpAddress& destination) {
  const auto own = device_of(id.device->verbs).port_attributes().addresses;
  const auto index = std::find(own.begin(), own.end(), id.connection->local.address) - own.begin();
  ibv_ah_attr attr{};
  std::memcpy(attr.grh.dgid.raw, destination.bytes.data(), sizeof attr.grh.dgid.raw);
  attr.grh.sgid_index = static_cast<std::uint8_t>(index);
  attr.grh.hop_limit = kHopLimit;
  attr.grh.traffic_class = id.tos;
  attr.grh.flow_label = id.connection->path.flow_label;
  attr.is_global = 1;
  attr.port_num = 1;
  return attr;
}

int fill_qp_attr(CmId& id, ibv_qp_attr* attr, int* mask) {
  switch (attr->qp_state) {
    case IBV_QPS_INIT:
      fill_init(id, attr, mask);
      return 0;
    case IBV_QPS_RTR:
    case IBV_QPS_RTS:
      if (is_datagram(id) || id.connection->peer.qpn.value == 0) return fail(EINVAL);
      if (attr->qp_state == IBV_QPS_RTR)
        fill_ready_to_receive(id, attr, mask);
      else
        fill_ready_to_send(id, attr, mask);
      return 0;
    default:
      return fail(EINVAL);
  }
}

int qp_to_ready(CmId& id, std::uint8_t responder_resources, std::uint8_t initiator_depth) {
  if (id.base.qp == nullptr) return 0;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  if (modify(id, id.base.qp, &attr, &attr.max_dest_rd_atomic, responder_resources) != 0) return -1;
  attr.qp_state = IBV_QPS_RTS;
  return modify(id, id.base.qp, &attr, &attr.max_rd_atomic, initiator_depth);
}

int qp_to_error(CmId& id) {
  if (id.base.qp == nullptr) return 0;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return result(ibv_modify_qp(id.base.qp, &attr, IBV_QP_STATE));
}

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
  return fill_qp_attr(*from(id), attr, mask);
}

ROCI_EXPORT int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attr) { return create(*from(id), attr); }

ROCI_EXPORT int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex extended{};
  // The plain structure is the beginning of the extended one.
  std::memcpy(static_cast<void*>(&extended), attr, sizeof *attr);
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd != nullptr ? pd : id->pd;
  if (create(*from(id), &extended) != 0) return -1;
  std::memcpy(static_cast<void*>(attr), &extended, sizeof *attr);
  return 0;
}

ROCI_EXPORT void rdma_destroy_qp(rdma_cm_id* id) {
  if (id->qp == nullptr) return;
  ibv_destroy_qp(id->qp);
  id->qp = nullptr;
  destroy_cqs(*from(id));
}

ROCI_EXPORT int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attr) {
  if (id->srq != nullptr || id->verbs == nullptr) return fail(EINVAL);
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr) {
    attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    attr->pd = id->pd;
  }
  if (attr->pd->context != id->verbs) return fail(EINVAL);
  ibv_srq* srq = ibv_create_srq_ex(id->verbs, attr);
  if (srq == nullptr) return -1;
  if (id->pd == nullptr) id->pd = attr->pd;
  id->srq = srq;
  return 0;
}

ROCI_EXPORT int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attr) {
  ibv_srq_init_attr_ex extended{};
  extended.srq_context = attr->srq_context;
  extended.attr = attr->attr;
  extended.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  extended.srq_type = IBV_SRQT_BASIC;
  extended.pd = pd;
  if (rdma_create_srq_ex(id, &extended) != 0) return -1;
  attr->attr = extended.attr;
  return 0;
}

ROCI_EXPORT void rdma_destroy_srq(rdma_cm_id* id) {
  if (id->srq != nullptr) ibv_destroy_srq(id->srq);
  id->srq = nullptr;
}
