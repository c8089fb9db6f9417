// One packet of a SEND or an RDMA WRITE: what the requesters of all transports have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stack/mem/memory.h"
#include "stack/qp/path.h"
#include "stack/qp/scatter_gather.h"
#include "stack/queues/send_queue.h"
#include "stack/wire/headers.h"
#include "stack/wire/opcodes.h"

namespace roci {

constexpr Position position_of(bool is_first, bool is_last) {
  if (is_first) return is_last ? Position::kOnly : Position::kFirst;
  return is_last ? Position::kLast : Position::kMiddle;
}

constexpr bool has_immediate(WrOpcode opcode) {
  return opcode == WrOpcode::kSendWithImm || opcode == WrOpcode::kRdmaWriteWithImm;
}

constexpr bool is_write(WrOpcode opcode) {
  return opcode == WrOpcode::kRdmaWrite || opcode == WrOpcode::kRdmaWriteWithImm;
}

/// The packet that begins `offset` bytes into the message of `wqe`.
inline PacketPlan plan_message_packet(const SendWqe& wqe, Transport transport, Psn psn, std::uint32_t offset,
                                      std::uint32_t mtu) {
  const std::uint32_t remaining = wqe.length - offset;
  const std::uint32_t payload = std::min(remaining, mtu);
  const bool is_last = payload == remaining;
  const Operation operation = is_write(wqe.opcode) ? Operation::kRdmaWrite : Operation::kSend;
  const bool with_imm = is_last && has_immediate(wqe.opcode);
  const bool with_inv = is_last && wqe.opcode == WrOpcode::kSendWithInv;
  return {.opcode = send_opcode(transport, operation, position_of(offset == 0, is_last), with_imm, with_inv),
          .psn = psn,
          .payload_bytes = payload,
          .solicited = is_last && (wqe.flags & kSendSolicited) != 0 && wqe.opcode != WrOpcode::kRdmaWrite,
          .carries_data = true};
}

/// Extension headers of a message's packet, from the end of the BTH, or of a DETH, on; returns where the payload goes.
inline std::byte* write_extensions(const SendWqe& wqe, const PacketPlan& plan, std::byte* out) {
  if (wqe.opcode == WrOpcode::kSend) return out;
  const OpcodeInfo& info = opcode_info(plan.opcode);
  if (info.has(Extension::kReth)) {
    Reth{.va = wqe.remote_addr, .rkey = wqe.rkey, .dma_length = wqe.length}.write(out);
    out += Reth::kSize;
  }
  if (info.has(Extension::kImmDt)) {
    ImmDt{.raw = wqe.imm_or_rkey}.write(out);
    out += ImmDt::kSize;
  } else if (info.has(Extension::kIeth)) {
    Ieth{.rkey = RKey{wqe.imm_or_rkey}}.write(out);
    out += Ieth::kSize;
  }
  return out;
}

/// The data of a WQE `offset` bytes into its message, where `cursor` stands if it is not inline. False: a key, range or
/// page is bad.
inline bool write_payload(const SendWqe& wqe, const KeyTable& keys, const Pd* pd, SgeCursor& cursor,
                          std::uint32_t offset, std::byte* out, std::uint32_t bytes) {
  if ((wqe.flags & kSendInline) == 0) return cursor.gather(keys, pd, wqe.sges(), wqe.num_sge, out, bytes);
  std::memcpy(out, wqe.inline_data() + offset, bytes);
  return true;
}

}  // namespace roci
