// The extended way to post: operations and their data are told one call at a time, and go on the queue together.
#include <cerrno>
#include <cstring>

#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {
namespace {

WrBatch& batch_of(ibv_qp_ex* qp) { return from(qp)->batch; }

void fail(ibv_qp_ex* qp, int error) {
  if (batch_of(qp).error == 0) batch_of(qp).error = error;
}

SendRequest& begin(ibv_qp_ex* qp, WrOpcode opcode, std::uint64_t operation) {
  ShimQp* shim = from(qp);
  WrBatch& batch = shim->batch;
  if ((shim->send_ops & operation) == 0) fail(qp, EINVAL);
  // That data is inline is said by how it is set.
  const unsigned flags = qp->wr_flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
  batch.data.push_back({.first_sge = batch.sges.size(),
                        .first_inline_byte = batch.inline_data.size(),
                        .inline_bytes = 0,
                        .inline_sge = {}});
  return batch.requests.emplace_back(
      SendRequest{.wr_id = qp->wr_id, .opcode = opcode, .flags = static_cast<std::uint8_t>(flags)});
}

/// Of the request that was begun last; null, and the batch fails, if there is none.
SendRequest* last_request(ibv_qp_ex* qp) {
  WrBatch& batch = batch_of(qp);
  if (!batch.requests.empty()) return &batch.requests.back();
  fail(qp, EINVAL);
  return nullptr;
}

void rdma(ibv_qp_ex* qp, WrOpcode opcode, std::uint64_t operation, std::uint32_t rkey, std::uint64_t remote_addr,
          __be32 imm) {
  SendRequest& request = begin(qp, opcode, operation);
  request.rkey = RKey{rkey};
  request.remote_addr = remote_addr;
  request.imm_or_rkey = imm;
}

void atomic(ibv_qp_ex* qp, WrOpcode opcode, std::uint64_t operation, std::uint32_t rkey, std::uint64_t remote_addr,
            std::uint64_t compare_add, std::uint64_t swap) {
  SendRequest& request = begin(qp, opcode, operation);
  request.rkey = RKey{rkey};
  request.remote_addr = remote_addr;
  request.compare_add = compare_add;
  request.swap = swap;
}

void set_sges(ibv_qp_ex* qp, std::size_t count, const ibv_sge* sges) {
  SendRequest* request = last_request(qp);
  if (request == nullptr) return;
  request->num_sge = static_cast<std::uint32_t>(count);
  const auto* ours = reinterpret_cast<const Sge*>(sges);
  batch_of(qp).sges.insert(batch_of(qp).sges.end(), ours, ours + count);
}

void add_inline(ibv_qp_ex* qp, const void* data, std::size_t bytes) {
  SendRequest* request = last_request(qp);
  if (request == nullptr) return;
  WrBatch& batch = batch_of(qp);
  std::size_t& inline_bytes = batch.data.back().inline_bytes;
  if (inline_bytes + bytes > from(qp)->qp->sq().max_inline_bytes()) return fail(qp, EINVAL);
  request->flags |= kSendInline;
  const auto* from_bytes = static_cast<const std::byte*>(data);
  batch.inline_data.insert(batch.inline_data.end(), from_bytes, from_bytes + bytes);
  inline_bytes += bytes;
}

void start(ibv_qp_ex* qp) {
  from(qp)->batch_lock.lock();
  WrBatch& batch = batch_of(qp);
  batch.requests.clear();
  batch.data.clear();
  batch.sges.clear();
  batch.inline_data.clear();
  batch.error = is_detached(qp->qp_base.context) ? EIO : 0;
}

/// Gives the requests the data that was gathered for them, which no longer moves.
void settle_data(WrBatch& batch) {
  for (std::size_t i = 0; i < batch.requests.size(); ++i) {
    SendRequest& request = batch.requests[i];
    WrBatch::Data& data = batch.data[i];
    if ((request.flags & kSendInline) == 0) {
      request.sges = batch.sges.data() + data.first_sge;
      continue;
    }
    data.inline_sge = {.addr = reinterpret_cast<std::uint64_t>(batch.inline_data.data() + data.first_inline_byte),
                       .length = static_cast<std::uint32_t>(data.inline_bytes),
                       .lkey = {}};
    request.sges = &data.inline_sge;
    request.num_sge = 1;
  }
}

/// All or nothing: a batch that does not fit, or has a bad request in it, posts none.
int post_batch(ShimQp* shim) {
  WrBatch& batch = shim->batch;
  if (batch.error != 0) return batch.error;
  settle_data(batch);
  const int error = device_of(shim->base.qp_base.context).post_send_all(shim->qp, batch.requests);
  if (error == 0 && !batch.requests.empty()) kick(shim, batch.requests.size());
  return error;
}

int complete(ibv_qp_ex* qp) {
  ShimQp* shim = from(qp);
  const int error = post_batch(shim);
  shim->batch_lock.unlock();
  return error;
}

void abort_batch(ibv_qp_ex* qp) { from(qp)->batch_lock.unlock(); }

void fill_operations_of(ibv_qp_ex* base) {
  base->wr_send = [](ibv_qp_ex* qp) { begin(qp, WrOpcode::kSend, IBV_QP_EX_WITH_SEND); };
  base->wr_send_imm = [](ibv_qp_ex* qp, __be32 imm) {
    begin(qp, WrOpcode::kSendWithImm, IBV_QP_EX_WITH_SEND_WITH_IMM).imm_or_rkey = imm;
  };
  base->wr_send_inv = [](ibv_qp_ex* qp, std::uint32_t rkey) {
    begin(qp, WrOpcode::kSendWithInv, IBV_QP_EX_WITH_SEND_WITH_INV).imm_or_rkey = rkey;
  };
  base->wr_rdma_write = [](ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t addr) {
    rdma(qp, WrOpcode::kRdmaWrite, IBV_QP_EX_WITH_RDMA_WRITE, rkey, addr, 0);
  };
  base->wr_rdma_write_imm = [](ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t addr, __be32 imm) {
    rdma(qp, WrOpcode::kRdmaWriteWithImm, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
  };
  base->wr_rdma_read = [](ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t addr) {
    rdma(qp, WrOpcode::kRdmaRead, IBV_QP_EX_WITH_RDMA_READ, rkey, addr, 0);
  };
  base->wr_atomic_cmp_swp = [](ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t addr, std::uint64_t compare,
                               std::uint64_t swap) {
    atomic(qp, WrOpcode::kAtomicCmpSwp, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
  };
  base->wr_atomic_fetch_add = [](ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t addr, std::uint64_t add) {
    atomic(qp, WrOpcode::kAtomicFetchAdd, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
  };
  base->wr_bind_mw = [](ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) {
    SendRequest& request = begin(qp, WrOpcode::kBindMw, IBV_QP_EX_WITH_BIND_MW);
    if (mw->type != IBV_MW_TYPE_2 || !make_bind_request(mw, rkey, *info, &request)) fail(qp, EINVAL);
  };
  base->wr_local_inv = [](ibv_qp_ex* qp, std::uint32_t rkey) {
    begin(qp, WrOpcode::kLocalInv, IBV_QP_EX_WITH_LOCAL_INV).imm_or_rkey = rkey;
  };
  base->wr_send_tso = [](ibv_qp_ex* qp, void*, std::uint16_t, std::uint16_t) { fail(qp, EOPNOTSUPP); };
  base->wr_atomic_write = [](ibv_qp_ex* qp, std::uint32_t, std::uint64_t, const void*) { fail(qp, EOPNOTSUPP); };
}

}  // namespace

void fill_extended_post(ibv_qp_ex* base) {
  fill_operations_of(base);
  base->wr_set_sge = [](ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
    const ibv_sge sge{.addr = addr, .length = length, .lkey = lkey};
    set_sges(qp, 1, &sge);
  };
  base->wr_set_sge_list = [](ibv_qp_ex* qp, std::size_t count, const ibv_sge* sges) { set_sges(qp, count, sges); };
  base->wr_set_inline_data = [](ibv_qp_ex* qp, void* data, std::size_t bytes) { add_inline(qp, data, bytes); };
  base->wr_set_inline_data_list = [](ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* buffers) {
    for (std::size_t i = 0; i < count; ++i) add_inline(qp, buffers[i].addr, buffers[i].length);
  };
  base->wr_set_ud_addr = [](ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
    SendRequest* request = last_request(qp);
    if (request == nullptr) return;
    if (qp->qp_base.qp_type != IBV_QPT_UD) return fail(qp, EINVAL);
    request->ah = from(ah)->ah;
    request->remote_qpn = Qpn{qpn};
    request->remote_qkey = qkey;
  };
  base->wr_set_xrc_srqn = [](ibv_qp_ex* qp, std::uint32_t) { fail(qp, EOPNOTSUPP); };
  base->wr_start = start;
  base->wr_complete = complete;
  base->wr_abort = abort_batch;
}

}  // namespace roci::shim
