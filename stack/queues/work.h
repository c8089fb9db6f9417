// Work requests, their ring entries, and completions. Values are those of verbs; the shim asserts it.
#pragma once

#include <cstdint>

#include "stack/base/types.h"

namespace roci {

struct AddressHandle;
class SendQueue;

/// Values of ibv_wr_opcode.
enum class WrOpcode : std::uint8_t {
  kRdmaWrite = 0,
  kRdmaWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRdmaRead = 4,
  kAtomicCmpSwp = 5,
  kAtomicFetchAdd = 6,
  kLocalInv = 7,
  kBindMw = 8,
  kSendWithInv = 9,
};

/// Values of ibv_send_flags.
enum SendFlag : std::uint8_t {
  kSendFence = 1,
  kSendSignaled = 2,
  kSendSolicited = 4,
  kSendInline = 8,
};

/// Values of ibv_wc_status.
enum class WcStatus : std::uint8_t {
  kSuccess = 0,
  kLocLenErr = 1,
  kLocQpOpErr = 2,
  kLocEecOpErr = 3,
  kLocProtErr = 4,
  kWrFlushErr = 5,
  kMwBindErr = 6,
  kBadRespErr = 7,
  kLocAccessErr = 8,
  kRemInvReqErr = 9,
  kRemAccessErr = 10,
  kRemOpErr = 11,
  kRetryExcErr = 12,
  kRnrRetryExcErr = 13,
  kLocRddViolErr = 14,
  kRemInvRdReqErr = 15,
  kRemAbortErr = 16,
  kInvEecnErr = 17,
  kInvEecStateErr = 18,
  kFatalErr = 19,
  kRespTimeoutErr = 20,
  kGeneralErr = 21,
};

/// Values of ibv_wc_opcode.
enum class WcOpcode : std::uint8_t {
  kSend = 0,
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kCompSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLocalInv = 6,
  kRecv = 128,
  kRecvRdmaWithImm = 129,
};

/// Values of ibv_wc_flags.
enum WcFlag : std::uint8_t {
  kWcGrh = 1,
  kWcWithImm = 2,
  kWcWithInv = 8,
};

/// Scatter/gather element; same layout as ibv_sge.
struct Sge {
  std::uint64_t addr;
  std::uint32_t length;
  LKey lkey;
};
static_assert(sizeof(Sge) == 16);

/// One send work request, as the application states it. `sges` may name inline data. A bind names the window by `rkey`,
/// the R_Key that it gets, and the region by its L_Key in `imm_or_rkey`; the range is from `remote_addr` on, of `swap`
/// bytes, and `compare_add` holds its AccessFlag bits.
struct SendRequest {
  std::uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kSend;
  std::uint8_t flags = 0;  ///< SendFlag bits
  std::uint32_t num_sge = 0;
  const Sge* sges = nullptr;
  /// Immediate data as the application holds it (network order), or the R_Key to invalidate.
  std::uint32_t imm_or_rkey = 0;
  std::uint64_t remote_addr = 0;
  RKey rkey;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  AddressHandle* ah = nullptr;  ///< UD only, with remote_qpn and remote_qkey
  Qpn remote_qpn;
  std::uint32_t remote_qkey = 0;
};

struct RecvRequest {
  std::uint64_t wr_id = 0;
  std::uint32_t num_sge = 0;
  const Sge* sges = nullptr;
};

/// Completion queue entry.
struct Cqe {
  std::uint64_t wr_id = 0;
  std::uint64_t timestamp_ns = 0;
  std::uint32_t byte_len = 0;
  std::uint32_t imm_or_rkey = 0;  ///< network order as received, or the invalidated R_Key in host order
  Qpn qpn;
  Qpn src_qpn;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  std::uint8_t flags = 0;  ///< WcFlag bits
  std::uint8_t sl = 0;
  bool solicited = false;
  /// Of a send WQE: polling this CQE frees the slots of its send queue up to, not including, this index.
  std::uint32_t sq_free_end = 0;
  SendQueue* sq = nullptr;
};
static_assert(sizeof(Cqe) <= 64);

}  // namespace roci
