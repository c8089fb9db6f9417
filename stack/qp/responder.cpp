#include "stack/qp/responder.h"

#include <algorithm>

#include "stack/mem/copy.h"
#include "stack/qp/qp.h"

namespace roci {
namespace {

constexpr std::uint64_t kMaxMessageBytes = 1ull << 31;

std::uint32_t response_packets(std::uint32_t bytes, std::uint32_t mtu_shift) {
  return bytes == 0 ? 1 : ((bytes - 1) >> mtu_shift) + 1;
}

std::uint32_t required_right(Operation operation) {
  switch (operation) {
    case Operation::kRdmaWrite:
      return kAccessRemoteWrite;
    case Operation::kRdmaReadRequest:
      return kAccessRemoteRead;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return kAccessRemoteAtomic;
    default:
      return 0;
  }
}

/// READs and atomics: their response is the acknowledgement.
bool has_response_of_its_own(Operation operation) {
  return operation != Operation::kSend && operation != Operation::kRdmaWrite;
}

}  // namespace

void Responder::start(Psn expected_psn) {
  reset();
  expected_psn_ = expected_psn;
  last_answered_psn_ = expected_psn - 1;
  responses_.resize(std::max<std::uint32_t>(1, qp_.attr().max_dest_rd_atomic));
  receive_.allocate(qp_.receive_queue().stride());
}

void Responder::reset() {
  msn_ = 0;
  previous_ = Opcode::kRcSendOnly;
  receive_.release();
  responses_.clear();
  ack_due_ = false;
  nak_ = Fault::kNone;
  awaiting_retransmission_ = false;
}

Responder::Order Responder::check_psn(Psn psn) const {
  const auto distance = psn.distance_from(expected_psn_);
  if (distance == 0) return Order::kExpected;
  return distance < 0 ? Order::kDuplicate : Order::kAhead;
}

void Responder::on_request(const Inbound& in) {
  const Psn psn = in.view.bth.psn;
  switch (check_psn(psn)) {
    case Order::kDuplicate:
      ++qp_.counters().duplicate_request;
      return replay(in);
    case Order::kAhead:
      ++qp_.counters().out_of_sequence;
      if (!awaiting_retransmission_) refuse(Fault::kSequence, expected_psn_);
      return;
    case Order::kExpected:
      break;
  }
  Fault fault = check_opcode(in);
  if (fault == Fault::kNone) fault = check_length(in);
  if (fault == Fault::kNone) fault = execute(in);
  if (fault != Fault::kNone) return refuse(fault, psn);
  awaiting_retransmission_ = false;
  // A NAK for the gap that this packet fills is no longer true.
  if (nak_ == Fault::kSequence || nak_ == Fault::kReceiverNotReady) nak_ = Fault::kNone;
  if (in.view.bth.ack_req && !has_response_of_its_own(in.view.info->operation)) owe_ack(psn);
}

void Responder::owe_ack(Psn psn) {
  if (!ack_due_ || psn.after(ack_psn_)) ack_psn_ = psn;
  ack_due_ = true;
}

/// A response acknowledges what came before its request (IBTA 9.7.5.1.2): an ACK is no longer owed.
void Responder::owe_response(const Response& response) {
  responses_.push(response);
  ack_due_ = false;
}

Fault Responder::check_opcode(const Inbound& in) const {
  if (!follows(previous_, static_cast<Opcode>(in.view.bth.opcode))) return Fault::kOpcodeSequence;
  const std::uint32_t right = required_right(in.view.info->operation);
  if ((qp_.attr().access_flags & right) != right) return Fault::kOpcodeNotEnabled;
  return Fault::kNone;
}

/// IBTA 9.7.4.1.6: first and middle packets are full, last ones are not empty, only ones may be.
Fault Responder::check_length(const Inbound& in) const {
  const std::uint32_t bytes = in.view.payload_bytes;
  switch (in.view.info->position) {
    case Position::kFirst:
    case Position::kMiddle:
      return bytes == qp_.mtu() ? Fault::kNone : Fault::kLength;
    case Position::kLast:
      return bytes >= 1 && bytes <= qp_.mtu() ? Fault::kNone : Fault::kLength;
    case Position::kOnly:
      return bytes <= qp_.mtu() ? Fault::kNone : Fault::kLength;
  }
  return Fault::kNone;
}

Fault Responder::execute(const Inbound& in) {
  switch (in.view.info->operation) {
    case Operation::kSend:
      return execute_send(in);
    case Operation::kRdmaWrite:
      return execute_write(in);
    case Operation::kRdmaReadRequest:
      return execute_read(in);
    default:
      return execute_atomic(in);
  }
}

void Responder::advance(const Inbound& in, std::uint32_t packets) {
  expected_psn_ = expected_psn_ + packets;
  previous_ = static_cast<Opcode>(in.view.bth.opcode);
  if (in.view.info->is_last()) msn_ = (msn_ + 1) & Psn::kMask;
}

Fault Responder::take_receive() {
  if (!receive_.take(qp_.receive_queue())) return Fault::kReceiverNotReady;
  qp_.note_srq_consumed();
  return Fault::kNone;
}

void Responder::complete_receive(const Inbound* in, WcStatus status) {
  receive_.release();
  Cqe cqe{.wr_id = receive_.wr_id(),
          .byte_len = received_bytes_,
          .qpn = qp_.qpn(),
          .src_qpn = qp_.attr().dest_qpn,
          .status = status,
          .opcode = WcOpcode::kRecv};
  if (in != nullptr && status == WcStatus::kSuccess)
    note_last_packet(in->view, &cqe);
  else if (status == WcStatus::kWrFlushErr)
    ++qp_.counters().resp_cqe_flush_error;
  else
    ++qp_.counters().resp_cqe_error;
  qp_.complete(*qp_.recv_cq(), cqe);
}

Fault Responder::execute_send(const Inbound& in) {
  const OpcodeInfo& info = *in.view.info;
  if (info.is_first()) {
    const Fault fault = take_receive();
    if (fault != Fault::kNone) return fault;
    received_bytes_ = 0;
  }
  const std::uint32_t bytes = in.view.payload_bytes;
  if (bytes > receive_.total_bytes() - received_bytes_) return Fault::kReceiveTooShort;
  if (!receive_.place(qp_.env().keys, qp_.receive_pd(), in.payload, bytes)) return Fault::kReceiveProtection;
  received_bytes_ += bytes;
  ++qp_.counters().rx_send_requests;
  advance(in, 1);
  // The message has arrived, whatever becomes of the key.
  if (info.has(Extension::kIeth) && !qp_.env().keys.invalidate(in.view.ieth().rkey.value, qp_.pd(), qp_.qpn()))
    return Fault::kInvalidate;
  if (info.is_last()) complete_receive(&in, WcStatus::kSuccess);
  return Fault::kNone;
}

[[gnu::always_inline]] inline std::byte* Responder::remote_memory(RKey rkey, std::uint64_t va, std::uint64_t bytes,
                                                                  std::uint32_t access) const {
  return qp_.env().keys.check_remote(rkey.value, qp_.pd(), qp_.qpn(), va, bytes, access);
}

Fault Responder::execute_write(const Inbound& in) {
  const OpcodeInfo& info = *in.view.info;
  const std::uint32_t bytes = in.view.payload_bytes;
  std::uint64_t va = write_va_;
  RKey rkey = write_rkey_;
  std::uint32_t left = write_left_;
  std::byte* memory = nullptr;
  if (info.is_first()) {
    const Reth reth = in.view.reth();
    if (reth.dma_length > kMaxMessageBytes) return Fault::kLength;
    // The whole range is checked before the first byte is written; none is if it is empty (IBTA C9-88).
    if (reth.dma_length > 0) {
      memory = remote_memory(reth.rkey, reth.va, reth.dma_length, kAccessRemoteWrite);
      if (memory == nullptr) return Fault::kRemoteAccess;
    }
    va = reth.va;
    rkey = reth.rkey;
    left = reth.dma_length;
  }
  if (info.is_last() ? bytes != left : bytes >= left) return Fault::kLength;
  if (info.takes_recv_wqe) {
    const Fault fault = take_receive();
    if (fault != Fault::kNone) return fault;
  }
  if (bytes > 0) {
    // Since the first packet the region may have gone.
    if (!info.is_first()) memory = remote_memory(rkey, va, bytes, kAccessRemoteWrite);
    if (memory == nullptr || !qp_.env().keys.copy_payload(memory, in.payload, bytes)) return Fault::kRemoteAccess;
  }
  write_va_ = va + bytes;
  write_rkey_ = rkey;
  write_left_ = left - bytes;
  received_bytes_ = info.is_first() ? bytes : received_bytes_ + bytes;
  ++qp_.counters().rx_write_requests;
  advance(in, 1);
  if (info.takes_recv_wqe) complete_receive(&in, WcStatus::kSuccess);
  return Fault::kNone;
}

Fault Responder::queue_read(const Reth& reth, Psn psn, std::uint32_t packets, bool is_replay) {
  if (reth.dma_length > kMaxMessageBytes) return Fault::kLength;
  if (reth.dma_length > 0 && remote_memory(reth.rkey, reth.va, reth.dma_length, kAccessRemoteRead) == nullptr)
    return Fault::kRemoteAccess;
  owe_response({.next_psn = psn,
                .packets_left = packets,
                .is_replay = is_replay,
                .va = reth.va,
                .rkey = reth.rkey,
                .bytes_left = reth.dma_length});
  ++qp_.counters().rx_read_requests;
  return Fault::kNone;
}

Fault Responder::execute_read(const Inbound& in) {
  if (qp_.attr().max_dest_rd_atomic == 0 || !responses_.make_room()) return Fault::kTooManyReads;
  const Reth reth = in.view.reth();
  const std::uint32_t packets = response_packets(reth.dma_length, qp_.mtu_shift());
  const Fault fault = queue_read(reth, in.view.bth.psn, packets, false);
  if (fault != Fault::kNone) return fault;
  advance(in, packets);
  last_answered_psn_ = expected_psn_ - 1;
  return Fault::kNone;
}

Fault Responder::execute_atomic(const Inbound& in) {
  const AtomicEth atomic = in.view.atomic_eth();
  if (atomic.va % sizeof(std::uint64_t) != 0) return Fault::kMisaligned;
  if (qp_.attr().max_dest_rd_atomic == 0 || !responses_.make_room()) return Fault::kTooManyReads;
  std::byte* memory = remote_memory(atomic.rkey, atomic.va, sizeof(std::uint64_t), kAccessRemoteAtomic);
  if (memory == nullptr) return Fault::kRemoteAccess;
  auto* word = reinterpret_cast<std::uint64_t*>(memory);
  std::uint64_t original = 0;
  const bool done = in.view.info->operation == Operation::kCompareSwap
                        ? user_compare_swap64(word, atomic.compare, atomic.swap_add, &original)
                        : user_fetch_add64(word, atomic.swap_add, &original);
  if (!done) return Fault::kRemoteAccess;
  responses_.save_atomic(in.view.bth.psn, original);
  owe_response({.is_atomic = true, .next_psn = in.view.bth.psn, .packets_left = 1, .original = original});
  ++qp_.counters().rx_atomic_requests;
  advance(in, 1);
  last_answered_psn_ = in.view.bth.psn;
  return Fault::kNone;
}

/// IBTA 9.7.5.1.4, table 57: what a duplicate gets. An ACK tells of all that was executed, unless that takes in a READ
/// or an atomic behind the duplicate: its requester still waits for their responses, and only these may complete them.
void Responder::replay(const Inbound& in) {
  const Psn psn = in.view.bth.psn;
  switch (in.view.info->operation) {
    case Operation::kRdmaReadRequest:
      return replay_read(in);
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return replay_atomic(in);
    default:
      if (in.view.bth.ack_req) owe_ack(psn.before(last_answered_psn_) ? psn : expected_psn_ - 1);
  }
}

void Responder::replay_read(const Inbound& in) {
  const Psn psn = in.view.bth.psn;
  const Reth reth = in.view.reth();
  const std::uint32_t packets = response_packets(reth.dma_length, qp_.mtu_shift());
  // A duplicate asks for nothing that was not asked for before.
  if ((psn + packets).after(expected_psn_)) return;
  responses_.cut_from(psn);
  if (responses_.make_room()) static_cast<void>(queue_read(reth, psn, packets, true));
}

void Responder::replay_atomic(const Inbound& in) {
  const Psn psn = in.view.bth.psn;
  const std::uint64_t* original = responses_.find_atomic(psn);
  if (original == nullptr) return;
  responses_.cut_from(psn);
  if (!responses_.make_room()) return;
  owe_response({.is_atomic = true, .next_psn = psn, .packets_left = 1, .is_replay = true, .original = *original});
}

void Responder::refuse(Fault fault, Psn psn) {
  const FaultInfo& info = fault_info(fault);
  nak_ = fault;
  nak_psn_ = psn;
  awaiting_retransmission_ = true;
  Counters& counters = qp_.counters();
  if (info.answer == FaultAnswer::kRnrNak)
    ++counters.out_of_buffer;
  else if (fault == Fault::kInvalidate)
    ++counters.resp_remote_invalidate_errors;
  else if (fault == Fault::kReceiveTooShort)
    ++counters.resp_local_length_error;
  else if (info.nak == NakCode::kRemoteAccessError)
    ++counters.resp_remote_access_errors;
  else if (info.nak == NakCode::kInvalidRequest)
    ++counters.resp_remote_invalid_request;
  else if (info.nak == NakCode::kRemoteOperationalError)
    ++counters.resp_remote_operational_errors;
  if (!info.is_fatal) return;
  if (receive_.in_use())
    complete_receive(nullptr, info.receive_status == WcStatus::kSuccess ? WcStatus::kWrFlushErr : info.receive_status);
  qp_.env().raise({.type = info.event, .qp = &qp_});
  qp_.enter_error();
}

void Responder::flush() {
  if (receive_.in_use()) complete_receive(nullptr, WcStatus::kWrFlushErr);
  ack_due_ = false;
  if (fault_info(nak_).is_fatal) return;
  nak_ = Fault::kNone;
  responses_.clear();
}

/// IBTA 9.7.7.2: the receives of an SRQ are promised to nobody.
std::uint8_t Responder::credits() const {
  return qp_.srq() != nullptr ? kNoCreditLimit : credit_code(qp_.receive_queue().size());
}

std::uint32_t Responder::next_packet(const Route& route, std::byte* frame) {
  if (!responses_.empty()) {
    const std::uint32_t bytes =
        responses_.front().is_atomic ? build_atomic_response(route, frame) : build_read_response(route, frame);
    if (bytes != 0) return bytes;
  }
  if (nak_ != Fault::kNone) {
    const FaultInfo& info = fault_info(nak_);
    nak_ = Fault::kNone;
    ack_due_ = false;
    return build_refusal(info, route, frame);
  }
  if (!ack_due_) return 0;
  ack_due_ = false;
  ++qp_.counters().tx_acks;
  return build_acknowledge(route, frame, ack_psn_, ack_syndrome(credits()));
}

std::uint32_t Responder::build_refusal(const FaultInfo& info, const Route& route, std::byte* frame) {
  const bool is_ack = info.answer == FaultAnswer::kAck;
  ++(is_ack ? qp_.counters().tx_acks : qp_.counters().tx_naks);
  switch (info.answer) {
    case FaultAnswer::kAck:
      return build_acknowledge(route, frame, nak_psn_, ack_syndrome(credits()));
    case FaultAnswer::kRnrNak:
      return build_acknowledge(route, frame, nak_psn_, rnr_nak_syndrome(qp_.attr().min_rnr_timer));
    default:
      return build_acknowledge(route, frame, nak_psn_, nak_syndrome(info.nak));
  }
}

std::uint32_t Responder::build_read_response(const Route& route, std::byte* frame) {
  Response& response = responses_.front();
  const bool is_last = response.packets_left == 1;
  const std::uint32_t bytes = std::min(response.bytes_left, qp_.mtu());
  const Position position = response.at_start ? (is_last ? Position::kOnly : Position::kFirst)
                                              : (is_last ? Position::kLast : Position::kMiddle);
  PacketPlan plan{.opcode = send_opcode(Transport::kRc, Operation::kRdmaReadResponse, position, false, false),
                  .psn = response.next_psn,
                  .payload_bytes = bytes,
                  .carries_data = true};
  std::byte* out = qp_.path().open(frame, route, plan);
  if (position != Position::kMiddle) {
    Aeth{.syndrome = ack_syndrome(credits()), .msn = msn_}.write(out);
    out += Aeth::kSize;
  }
  if (bytes > 0) {
    // The region may have gone since the request was checked.
    std::byte* memory = remote_memory(response.rkey, response.va, bytes, kAccessRemoteRead);
    if (memory == nullptr || !qp_.env().keys.copy_payload(out, memory, bytes)) {
      // A duplicate may be stale, and its requester have allowed since that the key goes.
      if (response.is_replay) {
        responses_.pop();
        return 0;
      }
      const Psn psn = response.next_psn;
      responses_.clear();
      refuse(Fault::kRemoteAccess, psn);
      return 0;
    }
  }
  response.next_psn = response.next_psn + 1;
  response.va += bytes;
  response.bytes_left -= bytes;
  response.at_start = false;
  if (--response.packets_left == 0) responses_.pop();
  ++qp_.counters().read_responses_sent;
  return qp_.path().close(frame, route, plan);
}

std::uint32_t Responder::build_atomic_response(const Route& route, std::byte* frame) {
  const Response& response = responses_.front();
  PacketPlan plan{.opcode = Opcode::kRcAtomicAcknowledge, .psn = response.next_psn};
  std::byte* out = qp_.path().open(frame, route, plan);
  Aeth{.syndrome = ack_syndrome(credits()), .msn = msn_}.write(out);
  AtomicAckEth{.original = response.original}.write(out + Aeth::kSize);
  responses_.pop();
  return qp_.path().close(frame, route, plan);
}

std::uint32_t Responder::build_acknowledge(const Route& route, std::byte* frame, Psn psn, std::uint8_t syndrome) {
  const bool echo = qp_.congestion() != nullptr && qp_.congestion()->take_echo();
  PacketPlan plan{.opcode = Opcode::kRcAcknowledge, .psn = psn, .becn = echo};
  Aeth{.syndrome = syndrome, .msn = msn_}.write(qp_.path().open(frame, route, plan));
  return qp_.path().close(frame, route, plan);
}

}  // namespace roci
