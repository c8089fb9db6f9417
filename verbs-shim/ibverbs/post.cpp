// Posting work requests.
#include <cerrno>

#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {

bool make_send_request(const ibv_send_wr& wr, SendRequest* request) {
  constexpr unsigned kKnownFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  if ((wr.send_flags & ~kKnownFlags) != 0 || wr.num_sge < 0) return false;
  *request = {.wr_id = wr.wr_id,
              .opcode = static_cast<WrOpcode>(wr.opcode),
              .flags = static_cast<std::uint8_t>(wr.send_flags),
              .num_sge = static_cast<std::uint32_t>(wr.num_sge),
              .sges = reinterpret_cast<const Sge*>(wr.sg_list),
              .imm_or_rkey = wr.imm_data};
  switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
      return true;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
      request->remote_addr = wr.wr.rdma.remote_addr;
      request->rkey = RKey{wr.wr.rdma.rkey};
      return true;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      request->remote_addr = wr.wr.atomic.remote_addr;
      request->rkey = RKey{wr.wr.atomic.rkey};
      request->compare_add = wr.wr.atomic.compare_add;
      request->swap = wr.wr.atomic.swap;
      return true;
    default:
      return false;
  }
}

void kick(ShimQp* shim, bool idle) {
  ibv_context* context = shim->base.qp_base.context;
  device_of(context).ring(shim->qp);
  // On a busy QP the worker is at work anyhow, or will be when an acknowledgement comes.
  if (idle) live_of(context).progress(TurnReason::kPost);
}

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  ShimQp* shim = from(base);
  *bad_wr = wr;
  if (is_detached(base->context)) return EIO;
  Device& device = device_of(base->context);
  const bool idle = shim->qp->sq().empty();
  ibv_send_wr* const first = wr;
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    SendRequest request;
    error = make_send_request(*wr, &request) ? device.post_send(shim->qp, request) : EINVAL;
    if (error != 0) break;
  }
  *bad_wr = wr;
  if (wr != first) kick(shim, idle);
  return error;
}

template <class Post>
int post_receives(ibv_context* context, ibv_recv_wr* wr, ibv_recv_wr** bad_wr, Post post) {
  *bad_wr = wr;
  if (is_detached(context)) return EIO;
  for (; wr != nullptr; wr = wr->next) {
    const int error = wr->num_sge < 0 ? EINVAL
                                      : post(RecvRequest{.wr_id = wr->wr_id,
                                                         .num_sge = static_cast<std::uint32_t>(wr->num_sge),
                                                         .sges = reinterpret_cast<const Sge*>(wr->sg_list)});
    if (error == 0) continue;
    *bad_wr = wr;
    return error;
  }
  *bad_wr = nullptr;
  return 0;
}

int post_recv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Device& device = device_of(base->context);
  return post_receives(base->context, wr, bad_wr,
                       [&](const RecvRequest& request) { return device.post_recv(from(base)->qp, request); });
}

int post_srq_recv(ibv_srq* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Device& device = device_of(base->context);
  return post_receives(base->context, wr, bad_wr,
                       [&](const RecvRequest& request) { return device.post_srq_recv(from(base)->srq, request); });
}

}  // namespace roci::shim
