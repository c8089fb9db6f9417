// Queue pairs: creation, attributes, states.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs-shim/ibverbs/events.h"
#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {
namespace {

ibv_qp* create(ibv_pd* pd, ibv_qp_init_attr_ex* attr) {
  ibv_context* context = pd->context;
  if (is_detached(context)) return fail_with<ibv_qp>(EIO);
  if (attr->send_cq == nullptr || attr->recv_cq == nullptr) return fail_with<ibv_qp>(EINVAL);
  if (attr->send_cq->context != context || attr->recv_cq->context != context) return fail_with<ibv_qp>(EINVAL);
  if (attr->srq != nullptr && attr->srq->context != context) return fail_with<ibv_qp>(EINVAL);
  if (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UC && attr->qp_type != IBV_QPT_UD)
    return fail_with<ibv_qp>(EOPNOTSUPP);
  auto* shim = new ShimQp{};
  QpInit init{.type = static_cast<QpType>(attr->qp_type),
              .send_cq = from(attr->send_cq)->cq,
              .recv_cq = from(attr->recv_cq)->cq,
              .srq = attr->srq == nullptr ? nullptr : from(attr->srq)->srq,
              .capacity = {.max_send_wr = attr->cap.max_send_wr,
                           .max_recv_wr = attr->cap.max_recv_wr,
                           .max_send_sge = attr->cap.max_send_sge,
                           .max_recv_sge = attr->cap.max_recv_sge,
                           .max_inline_data = attr->cap.max_inline_data},
              .signal_all = attr->sq_sig_all != 0,
              .user = shim};
  if (const int error = device_of(context).create_qp(from(pd)->pd, init, &shim->qp); error != 0) {
    delete shim;
    return fail_with<ibv_qp>(error);
  }
  const QpCapacity& granted = init.capacity;
  attr->cap = {granted.max_send_wr, granted.max_recv_wr, granted.max_send_sge, granted.max_recv_sge,
               granted.max_inline_data};
  shim->signal_all = attr->sq_sig_all != 0;
  ibv_qp& base = shim->base.qp_base;
  base.context = context;
  base.qp_context = attr->qp_context;
  base.pd = pd;
  base.send_cq = attr->send_cq;
  base.recv_cq = attr->recv_cq;
  base.srq = attr->srq;
  base.qp_num = shim->qp->qpn().value;
  base.handle = base.qp_num;
  base.state = IBV_QPS_RESET;
  base.qp_type = attr->qp_type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  fill_extended_post(&shim->base);
  return &base;
}

/// A client's enum as our narrower one: what does not fit is as wrong as 255.
template <class Ours, class Theirs>
Ours narrow(const Theirs& value) {
  unsigned number = 0;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  return static_cast<Ours>(static_cast<std::uint8_t>(std::min(number, 0xffu)));
}

QpAttr make_attr(const ibv_qp_attr& attr, const AddressVector& av) {
  return {.state = narrow<QpState>(attr.qp_state),
          .cur_state = narrow<QpState>(attr.cur_qp_state),
          .path_mtu = narrow<std::uint8_t>(attr.path_mtu),
          .qkey = attr.qkey,
          .rq_psn = Psn(attr.rq_psn),
          .sq_psn = Psn(attr.sq_psn),
          .dest_qpn = Qpn{attr.dest_qp_num & Qpn::kMask},
          .access_flags = attr.qp_access_flags & (kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                                  kAccessRemoteAtomic | kAccessMwBind),
          .av = av,
          .pkey_index = attr.pkey_index,
          .max_rd_atomic = attr.max_rd_atomic,
          .max_dest_rd_atomic = attr.max_dest_rd_atomic,
          .min_rnr_timer = attr.min_rnr_timer,
          .port_num = attr.port_num,
          .timeout = attr.timeout,
          .retry_cnt = attr.retry_cnt,
          .rnr_retry = attr.rnr_retry,
          .en_sqd_async_notify = attr.en_sqd_async_notify != 0};
}

void describe_path(const AddressVector& av, ibv_ah_attr* out) {
  std::memcpy(out->grh.dgid.raw, av.dgid.bytes.data(), sizeof out->grh.dgid.raw);
  out->grh.flow_label = av.flow_label;
  out->grh.sgid_index = av.sgid_index;
  out->grh.hop_limit = av.hop_limit;
  out->grh.traffic_class = av.traffic_class;
  out->sl = av.sl;
  out->static_rate = av.static_rate;
  out->is_global = 1;
  out->port_num = av.port_num;
}

IpAddress address_of(const ibv_gid& gid) {
  IpAddress address;
  std::memcpy(address.bytes.data(), gid.raw, address.bytes.size());
  return address;
}

}  // namespace

bool make_address_vector(const ibv_ah_attr& attr, AddressVector* av) {
  av->dgid = address_of(attr.grh.dgid);
  av->flow_label = attr.grh.flow_label;
  av->sgid_index = attr.grh.sgid_index;
  av->hop_limit = attr.grh.hop_limit;
  av->traffic_class = attr.grh.traffic_class;
  av->sl = attr.sl;
  av->static_rate = attr.static_rate;
  av->port_num = attr.port_num;
  av->is_global = attr.is_global != 0;
  return av->is_global;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  constexpr std::uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((attr->comp_mask & ~kKnown) != 0) return fail_with<ibv_qp>(EOPNOTSUPP);
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == nullptr || attr->pd->context != context)
    return fail_with<ibv_qp>(EINVAL);
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0)
    return fail_with<ibv_qp>(EOPNOTSUPP);
  constexpr std::uint64_t kOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                        IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                                        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                        IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW |
                                        IBV_QP_EX_WITH_LOCAL_INV;
  const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (extended && (attr->send_ops_flags & ~kOperations) != 0) return fail_with<ibv_qp>(EOPNOTSUPP);
  ibv_qp* qp = create(attr->pd, attr);
  if (qp != nullptr && extended) from(qp)->send_ops = attr->send_ops_flags;
  return qp;
}

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex extended{};
  // The plain structure is the beginning of the extended one.
  std::memcpy(static_cast<void*>(&extended), attr, sizeof *attr);
  ibv_qp* qp = create(pd, &extended);
  if (qp != nullptr) attr->cap = extended.cap;
  return qp;
}

ROCI_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  // Only a QP that was created with operations has the extended interface.
  return from(qp)->send_ops != 0 ? &from(qp)->base : nullptr;
}

ROCI_EXPORT int ibv_modify_qp(ibv_qp* base, ibv_qp_attr* attr, int mask) {
  if (is_detached(base->context)) return EIO;
  constexpr int kUnsupported = IBV_QP_CAP | IBV_QP_RATE_LIMIT;
  if ((mask & kUnsupported) != 0) return EOPNOTSUPP;
  roci::AddressVector av;
  if ((mask & IBV_QP_AV) != 0) make_address_vector(attr->ah_attr, &av);
  const int error =
      device_of(base->context).modify_qp(from(base)->qp, make_attr(*attr, av), static_cast<std::uint32_t>(mask));
  if (error == 0 && (mask & IBV_QP_STATE) != 0) base->state = attr->qp_state;
  return error;
}

ROCI_EXPORT int ibv_query_qp(ibv_qp* base, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  if (is_detached(base->context)) return EIO;
  roci::QpAttr ours;
  roci::QpCapacity capacity;
  device_of(base->context).query_qp(from(base)->qp, &ours, &capacity);
  *attr = {};
  attr->qp_state = attr->cur_qp_state = static_cast<ibv_qp_state>(ours.state);
  attr->path_mtu = static_cast<ibv_mtu>(ours.path_mtu);
  attr->path_mig_state = IBV_MIG_MIGRATED;
  attr->qkey = ours.qkey;
  attr->rq_psn = ours.rq_psn.value();
  attr->sq_psn = ours.sq_psn.value();
  attr->dest_qp_num = ours.dest_qpn.value;
  attr->qp_access_flags = ours.access_flags;
  attr->cap = {capacity.max_send_wr, capacity.max_recv_wr, capacity.max_send_sge, capacity.max_recv_sge,
               capacity.max_inline_data};
  describe_path(ours.av, &attr->ah_attr);
  attr->pkey_index = ours.pkey_index;
  attr->en_sqd_async_notify = ours.en_sqd_async_notify;
  attr->sq_draining = ours.sq_draining;
  attr->max_rd_atomic = ours.max_rd_atomic;
  attr->max_dest_rd_atomic = ours.max_dest_rd_atomic;
  attr->min_rnr_timer = ours.min_rnr_timer;
  attr->port_num = ours.port_num;
  attr->timeout = ours.timeout;
  attr->retry_cnt = ours.retry_cnt;
  attr->rnr_retry = ours.rnr_retry;
  base->state = attr->qp_state;
  if (init == nullptr) return 0;
  *init = {.qp_context = base->qp_context,
           .send_cq = base->send_cq,
           .recv_cq = base->recv_cq,
           .srq = base->srq,
           .cap = attr->cap,
           .qp_type = base->qp_type,
           .sq_sig_all = from(base)->signal_all};
  return 0;
}

ROCI_EXPORT int ibv_destroy_qp(ibv_qp* base) {
  ShimQp* shim = from(base);
  if (!is_detached(base->context)) {
    // What was raised and not yet fetched is forgotten.
    device_of(base->context).silence_qp(shim->qp);
    from(base->context)->async_events->purge([shim](const roci::AsyncEvent& event) { return event.qp == shim->qp; });
    wait_for_acknowledgement(&base->mutex, &base->cond, &base->events_completed, &shim->async_events_delivered);
    if (const int error = device_of(base->context).destroy_qp(shim->qp); error != 0) return error;
  }
  pthread_mutex_destroy(&base->mutex);
  pthread_cond_destroy(&base->cond);
  delete shim;
  return 0;
}

ROCI_EXPORT int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; }
ROCI_EXPORT int ibv_query_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }
ROCI_EXPORT int ibv_set_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }

ROCI_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t) {
  if (is_detached(qp->context)) return EIO;
  return device_of(qp->context).attach_mcast(from(qp)->qp, address_of(*gid));
}

ROCI_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t) {
  if (is_detached(qp->context)) return EIO;
  return device_of(qp->context).detach_mcast(from(qp)->qp, address_of(*gid));
}
