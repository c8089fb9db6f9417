#include "stack/qp/requester.h"

#include <algorithm>

#include "stack/qp/message_packet.h"
#include "stack/qp/qp.h"
#include "stack/wire/opcodes.h"

namespace roci {
namespace {

std::uint32_t packets_of(std::uint32_t length, std::uint32_t mtu_shift) {
  return length == 0 ? 1 : ((length - 1) >> mtu_shift) + 1;
}

}  // namespace

void Requester::start(Psn first_psn) {
  next_psn_ = unacked_psn_ = end_psn_ = first_psn;
  last_ack_request_ = first_psn - 1;
  read_resumed_at_ = first_psn - 1;
  next_index_ = started_end_ = qp_.sq().head();
  ssn_base_ = next_index_ - 1;
  credits_.reset();
  next_offset_ = 0;
  reads_sent_ = 0;
  executed_ = 0;
  paused_until_ = {};
  failed_ = WcStatus::kSuccess;
}

void Requester::reset() { start(Psn{}); }

inline bool Requester::has_credit(const SendWqe& wqe) const {
  if (wqe.is_read_or_atomic() || wqe.opcode == WrOpcode::kRdmaWrite) return true;
  return credits_.allow(next_index_ - ssn_base_) || !has_outstanding() || wqe.is_local();
}

inline bool Requester::may_start(const SendWqe& wqe) const {
  if (qp_.state() != QpState::kRts) return false;
  if ((wqe.flags & kSendFence) != 0 && reads_sent_ > 0) return false;
  return has_credit(wqe);
}

bool Requester::can_send(Instant now) {
  if (now < paused_until_ || next_index_ == qp_.sq().tail()) return false;
  if (has_failed() && next_index_ == failed_index_) return false;
  if (next_psn_.distance_from(unacked_psn_) >= static_cast<std::int32_t>(qp_.window_packets())) return false;
  const SendWqe& wqe = qp_.sq().at(next_index_);
  // With no resources for READs at all the WQE fails; see next_packet().
  if (wqe.is_read_or_atomic() && reads_sent_ > 0 && reads_sent_ >= qp_.attr().max_rd_atomic) return false;
  if (wqe.opcode == WrOpcode::kRdmaRead && next_offset_ > 0 && next_psn_ != unacked_psn_) return false;
  return next_index_ != started_end_ || may_start(wqe);
}

void Requester::start_wqe(SendWqe& wqe) {
  const bool is_atomic = wqe.opcode == WrOpcode::kAtomicCmpSwp || wqe.opcode == WrOpcode::kAtomicFetchAdd;
  wqe.first_psn = next_psn_;
  wqe.last_psn = next_psn_ + ((is_atomic ? 1 : packets_of(wqe.length, qp_.mtu_shift())) - 1);
  ++started_end_;
  cursor_ = {};
}

std::uint32_t Requester::next_packet(Instant now, const Route& route, std::byte* frame) {
  if (!can_send(now)) return 0;
  SendWqe& wqe = qp_.sq().at(next_index_);
  if (wqe.is_local()) [[unlikely]]
    return next_after_local(now, route, frame);
  if (next_index_ == started_end_) start_wqe(wqe);
  if (wqe.is_read_or_atomic() && qp_.attr().max_rd_atomic == 0) {
    fail(WcStatus::kLocQpOpErr);
    return 0;
  }
  if (next_psn_.before(end_psn_)) {
    ++qp_.counters().retransmitted_packets;
    ++retransmitted_packets_;
  }
  std::uint32_t bytes = 0;
  switch (wqe.opcode) {
    case WrOpcode::kRdmaRead:
      bytes = build_read(wqe, route, frame);
      break;
    case WrOpcode::kAtomicCmpSwp:
    case WrOpcode::kAtomicFetchAdd:
      bytes = build_atomic(wqe, route, frame);
      break;
    default:
      bytes = build_request(wqe, route, frame);
  }
  if (next_psn_.after(end_psn_)) end_psn_ = next_psn_;
  return bytes;
}

std::uint32_t Requester::next_after_local(Instant now, const Route& route, std::byte* frame) {
  while (can_send(now)) {
    SendWqe& wqe = qp_.sq().at(next_index_);
    if (!wqe.is_local()) break;
    // After a rewind it has been executed already.
    if (next_index_ == started_end_) {
      if (!execute_local(wqe)) {
        fail(WcStatus::kMwBindErr);
        break;
      }
      ++executed_;
    }
    finish_wqe();
  }
  qp_.complete_local();
  return next_packet(now, route, frame);
}

/// IBTA 10.8.3.3: what follows a bind or an invalidation in the queue finds it done.
bool Requester::execute_local(SendWqe& wqe) {
  // No message, so it has neither a PSN nor an SSN.
  wqe.first_psn = next_psn_;
  wqe.last_psn = next_psn_ - 1;
  ++started_end_;
  ++ssn_base_;
  KeyTable& keys = qp_.env().keys;
  if (wqe.opcode == WrOpcode::kLocalInv) return keys.invalidate(wqe.imm_or_rkey, qp_.pd(), qp_.qpn());
  const WindowBinding binding{.window_key = wqe.rkey.value,
                              .region_key = wqe.imm_or_rkey,
                              .va = wqe.remote_addr,
                              .length = wqe.swap,
                              .access = static_cast<std::uint32_t>(wqe.compare_add)};
  return keys.bind(binding, qp_.pd(), qp_.qpn());
}

bool Requester::wants_ack(Psn psn, bool is_last) const {
  return is_last || psn.distance_from(last_ack_request_) >= static_cast<std::int32_t>(qp_.window().ack_every_packets);
}

std::uint32_t Requester::build_request(const SendWqe& wqe, const Route& route, std::byte* frame) {
  PacketPlan plan = plan_message_packet(wqe, Transport::kRc, next_psn_, next_offset_, qp_.mtu());
  const bool is_last = next_offset_ + plan.payload_bytes == wqe.length;
  plan.ack_requested = wants_ack(next_psn_, is_last);
  std::byte* out = write_extensions(wqe, plan, qp_.path().open(frame, route, plan));
  if (!write_payload(wqe, qp_.env().keys, qp_.pd(), cursor_, next_offset_, out, plan.payload_bytes)) {
    fail(WcStatus::kLocProtErr);
    return 0;
  }
  if (plan.ack_requested) last_ack_request_ = next_psn_;
  next_psn_ = next_psn_ + 1;
  next_offset_ += plan.payload_bytes;
  if (is_last) finish_wqe();
  return qp_.path().close(frame, route, plan);
}

std::uint32_t Requester::build_read(const SendWqe& wqe, const Route& route, std::byte* frame) {
  PacketPlan plan{.opcode = Opcode::kRcReadRequest, .psn = next_psn_, .ack_requested = true, .carries_data = true};
  std::byte* out = qp_.path().open(frame, route, plan);
  // After a rewind only what is missing is asked for again (IBTA 9.7.5.1.3): never more than the part that was asked
  // for before, which the responder would not take for a duplicate.
  const std::uint32_t missing_packets = packets_of(wqe.length - next_offset_, qp_.mtu_shift());
  const std::uint32_t part = qp_.window().read_packets;
  const std::uint32_t packets = std::min(missing_packets, part - (next_offset_ >> qp_.mtu_shift()) % part);
  // A further part is one more message to the responder, which counts it in its MSN.
  if (next_offset_ > 0 && next_psn_ == end_psn_) --ssn_base_;
  if (next_offset_ > 0) read_resumed_at_ = next_psn_;
  const std::uint32_t bytes = packets == missing_packets ? wqe.length - next_offset_ : packets << qp_.mtu_shift();
  Reth{.va = wqe.remote_addr + next_offset_, .rkey = wqe.rkey, .dma_length = bytes}.write(out);
  next_psn_ = next_psn_ + packets;
  last_ack_request_ = next_psn_ - 1;
  next_offset_ += bytes;
  if (packets == missing_packets) {
    ++reads_sent_;
    finish_wqe();
  }
  return qp_.path().close(frame, route, plan);
}

std::uint32_t Requester::build_atomic(const SendWqe& wqe, const Route& route, std::byte* frame) {
  const bool is_swap = wqe.opcode == WrOpcode::kAtomicCmpSwp;
  PacketPlan plan{.opcode = is_swap ? Opcode::kRcCompareSwap : Opcode::kRcFetchAdd,
                  .psn = next_psn_,
                  .ack_requested = true,
                  .carries_data = true};
  std::byte* out = qp_.path().open(frame, route, plan);
  AtomicEth{.va = wqe.remote_addr,
            .rkey = wqe.rkey,
            .swap_add = is_swap ? wqe.swap : wqe.compare_add,
            .compare = is_swap ? wqe.compare_add : 0}
      .write(out);
  last_ack_request_ = next_psn_;
  next_psn_ = next_psn_ + 1;
  ++reads_sent_;
  finish_wqe();
  return qp_.path().close(frame, route, plan);
}

void Requester::fail(WcStatus status) {
  failed_ = status;
  failed_index_ = next_index_;
}

void Requester::finish_wqe() {
  ++next_index_;
  next_offset_ = 0;
  // The next WQE, if it was started before a rewind, begins at its own start.
  cursor_ = {};
}

SendWqe* Requester::oldest() {
  const std::uint32_t head = qp_.sq().head();
  return head == started_end_ ? nullptr : &qp_.sq().at(head);
}

void Requester::advance_unacked(Psn psn) {
  unacked_psn_ = psn;
  // Acknowledged beyond the cursor: what a rewind meant to send again has arrived after all.
  if (next_psn_.before(psn)) seek(psn);
}

void Requester::pop_oldest() {
  const std::uint32_t head = qp_.sq().head();
  const bool was_sent = head != next_index_;
  if (was_sent && qp_.sq().at(head).is_read_or_atomic()) --reads_sent_;
  if (!was_sent) {
    ++next_index_;
    next_offset_ = 0;
    cursor_ = {};
  }
  qp_.sq().pop();
}

void Requester::drop_oldest() {
  executed_ = 0;
  qp_.sq().pop();
}

void Requester::rewind_to(Psn psn) {
  seek(psn);
  // Whatever is sent again asks for an answer soon.
  last_ack_request_ = psn - 1;
}

void Requester::seek(Psn psn) {
  std::uint32_t index = qp_.sq().head();
  std::uint32_t reads = 0;
  while (index != started_end_ && qp_.sq().at(index).last_psn.before(psn)) {
    if (qp_.sq().at(index).is_read_or_atomic()) ++reads;
    ++index;
  }
  next_index_ = index;
  next_psn_ = psn;
  next_offset_ = 0;
  reads_sent_ = reads;
  cursor_ = {};
  if (index == started_end_) return;
  const SendWqe& wqe = qp_.sq().at(index);
  next_offset_ = static_cast<std::uint32_t>(psn.distance_from(wqe.first_psn)) << qp_.mtu_shift();
  if ((wqe.flags & kSendInline) == 0) cursor_.seek(wqe.sges(), wqe.num_sge, next_offset_);
}

WcStatus Requester::failure_due() const {
  return has_failed() && qp_.sq().head() == failed_index_ ? failed_ : WcStatus::kSuccess;
}

bool Requester::is_drained() const { return qp_.sq().head() == started_end_; }

}  // namespace roci
