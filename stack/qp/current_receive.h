// The receive WQE that a message is being placed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "stack/mem/memory.h"
#include "stack/qp/scatter_gather.h"
#include "stack/queues/recv_queue.h"
#include "stack/queues/work.h"
#include "stack/wire/packet.h"

namespace roci {

/// The WQE is copied out, so that its slot (perhaps of an SRQ) is free at once. Owner: worker.
class CurrentReceive {
 public:
  /// `stride` is that of the queue that WQEs are taken from.
  void allocate(std::size_t stride) {
    if (memory_ == nullptr) memory_ = std::make_unique<std::byte[]>(stride);
  }

  /// Takes the oldest WQE of `queue`; false if there is none.
  bool take(RecvQueue& queue) {
    if (!queue.take(reinterpret_cast<RecvWqe*>(memory_.get()))) return false;
    in_use_ = true;
    cursor_ = {};
    return true;
  }
  /// The WQE is complete, or its QP was reset.
  void release() { in_use_ = false; }
  /// The message was dropped: the next one is placed in the same WQE.
  void rewind() { cursor_ = {}; }

  bool in_use() const { return in_use_; }
  std::uint64_t wr_id() const { return wqe()->wr_id; }
  std::uint32_t total_bytes() const { return wqe()->total_bytes; }

  /// Places the next `bytes` of the message. False: a key, range, right or page is bad.
  bool place(const KeyTable& keys, const Pd* pd, const std::byte* data, std::uint32_t bytes) {
    return cursor_.scatter(keys, pd, wqe()->sges(), wqe()->num_sge, data, bytes);
  }

 private:
  const RecvWqe* wqe() const { return reinterpret_cast<const RecvWqe*>(memory_.get()); }

  std::unique_ptr<std::byte[]> memory_;
  bool in_use_ = false;
  SgeCursor cursor_;
};

/// What the last packet of a message tells the completion: immediate data or the key to invalidate, and who wants to
/// hear of it.
inline void note_last_packet(const PacketView& view, Cqe* cqe) {
  const OpcodeInfo& info = *view.info;
  if (info.has(Extension::kImmDt)) {
    cqe->imm_or_rkey = view.imm_dt().raw;
    cqe->flags |= kWcWithImm;
  } else if (info.has(Extension::kIeth)) {
    cqe->imm_or_rkey = view.ieth().rkey.value;
    cqe->flags |= kWcWithInv;
  }
  if (info.operation == Operation::kRdmaWrite) cqe->opcode = WcOpcode::kRecvRdmaWithImm;
  cqe->solicited = view.bth.solicited;
}

}  // namespace roci
