// Memory windows.
#include <cerrno>

#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  if (is_detached(pd->context)) return fail_with<ibv_mw>(EIO);
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return fail_with<ibv_mw>(EINVAL);
  auto* shim = new ShimMw{};
  if (const int error = device_of(pd->context).alloc_mw(from(pd)->pd, static_cast<KeyKind>(type), &shim->mw);
      error != 0) {
    delete shim;
    return fail_with<ibv_mw>(error);
  }
  shim->base = {.context = pd->context,
                .pd = pd,
                .rkey = shim->mw->key,
                .handle = KeyTable::index_of(shim->mw->key),
                .type = type};
  return &shim->base;
}

int dealloc_mw(ibv_mw* mw) {
  if (!is_detached(mw->context)) device_of(mw->context).dealloc_mw(from(mw)->mw);
  delete from(mw);
  return 0;
}

bool make_bind_request(const ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& info, SendRequest* request) {
  constexpr unsigned kRights =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;
  // To write locally is no right of a window, but Linux does not mind.
  if ((info.mw_access_flags & ~(kRights | IBV_ACCESS_LOCAL_WRITE)) != 0) return false;
  // Only the tag is the client's to choose.
  if (((mw->rkey ^ rkey) & ~KeyTable::kTagMask) != 0) return false;
  request->opcode = WrOpcode::kBindMw;
  request->rkey = RKey{rkey};
  request->imm_or_rkey = info.mr == nullptr ? 0 : info.mr->lkey;
  request->remote_addr = info.addr;
  request->swap = info.length;
  request->compare_add = info.mw_access_flags & kRights;
  return true;
}

/// For windows of type 1; those of type 2 are bound by work requests that choose their tag themselves.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* wanted) {
  if (is_detached(qp->context)) return EIO;
  // The header's function has looked at the rest (IBTA o10-36.2.2 at the zero base).
  if (mw->type != IBV_MW_TYPE_1 || (wanted->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0) return EINVAL;
  constexpr unsigned kFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED;
  SendRequest request{.wr_id = wanted->wr_id, .flags = static_cast<std::uint8_t>(wanted->send_flags & kFlags)};
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  if ((wanted->send_flags & ~kFlags) != 0) return EINVAL;
  if (!make_bind_request(mw, rkey, wanted->bind_info, &request)) return EINVAL;
  if (const int error = device_of(qp->context).post_send(from(qp)->qp, request); error != 0) return error;
  mw->rkey = rkey;
  kick(from(qp), 1);
  return 0;
}

}  // namespace roci::shim
