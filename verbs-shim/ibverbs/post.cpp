// Posting work requests.
#include <cerrno>
#include <cstring>

#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {
namespace {

/// A client may put any number there, which C++ lets nobody read as an enum.
unsigned opcode_of(const ibv_send_wr& wr) {
  unsigned opcode = 0;
  static_assert(sizeof opcode == sizeof wr.opcode);
  std::memcpy(&opcode, &wr.opcode, sizeof opcode);
  return opcode;
}

}  // namespace

bool make_send_request(const ibv_send_wr& wr, bool is_datagram, SendRequest* request) {
  constexpr unsigned kKnownFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  if ((wr.send_flags & ~kKnownFlags) != 0 || wr.num_sge < 0) return false;
  const unsigned opcode = opcode_of(wr);
  *request = {.wr_id = wr.wr_id,
              .opcode = static_cast<WrOpcode>(opcode),
              .flags = static_cast<std::uint8_t>(wr.send_flags),
              .num_sge = static_cast<std::uint32_t>(wr.num_sge),
              .sges = reinterpret_cast<const Sge*>(wr.sg_list),
              .imm_or_rkey = wr.imm_data};
  if (is_datagram) {
    if (wr.wr.ud.ah == nullptr) return false;
    request->ah = from(wr.wr.ud.ah)->ah;
    request->remote_qpn = Qpn{wr.wr.ud.remote_qpn};
    request->remote_qkey = wr.wr.ud.remote_qkey;
    return true;
  }
  switch (opcode) {
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
    case IBV_WR_LOCAL_INV:
      request->num_sge = 0;
      return true;
    case IBV_WR_BIND_MW:
      request->num_sge = 0;
      return wr.bind_mw.mw != nullptr && wr.bind_mw.mw->type == IBV_MW_TYPE_2 &&
             make_bind_request(wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info, request);
    default:
      return false;
  }
}

void kick(ShimQp* shim, std::size_t posted) {
  ibv_context* context = shim->base.qp_base.context;
  device_of(context).ring(shim->qp);
  // Behind older WQEs the worker will look when these complete. To be asked after the doorbell: another thread's WQE,
  // that was there before, may have completed since.
  const SendQueue& sq = shim->qp->sq();
  if (sq.outstanding() <= posted) live_of(context).progress_posted(*shim->qp);
}

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  ShimQp* shim = from(base);
  *bad_wr = wr;
  if (is_detached(base->context)) return EIO;
  Device& device = device_of(base->context);
  const bool is_datagram = base->qp_type == IBV_QPT_UD;
  std::size_t posted = 0;
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    SendRequest request;
    error = make_send_request(*wr, is_datagram, &request) ? device.post_send(shim->qp, request) : EINVAL;
    if (error != 0) break;
    ++posted;
  }
  *bad_wr = wr;
  if (posted > 0) kick(shim, posted);
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
