// How a send WQE completes.
#pragma once

#include "stack/qp/qp.h"

namespace roci {

constexpr WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return WcOpcode::kRdmaWrite;
    case WrOpcode::kRdmaRead:
      return WcOpcode::kRdmaRead;
    case WrOpcode::kAtomicCmpSwp:
      return WcOpcode::kCompSwap;
    case WrOpcode::kAtomicFetchAdd:
      return WcOpcode::kFetchAdd;
    case WrOpcode::kLocalInv:
      return WcOpcode::kLocalInv;
    case WrOpcode::kBindMw:
      return WcOpcode::kBindMw;
    default:
      return WcOpcode::kSend;
  }
}

/// Adds the CQE of `wqe`, which has left the send queue, if it is signalled or failed.
inline void add_send_completion(Qp& qp, const SendWqe& wqe, WcStatus status) {
  if (status == WcStatus::kSuccess && (wqe.flags & kSendSignaled) == 0) return;
  if (status == WcStatus::kWrFlushErr)
    ++qp.counters().req_cqe_flush_error;
  else if (status != WcStatus::kSuccess)
    ++qp.counters().req_cqe_error;
  qp.complete(*qp.send_cq(), {.wr_id = wqe.wr_id,
                              .byte_len = wqe.length,
                              .qpn = qp.qpn(),
                              .status = status,
                              .opcode = completion_opcode(wqe.opcode),
                              .sq_free_end = qp.sq().head(),
                              .sq = &qp.sq()});
}

}  // namespace roci
