#include "stack/qp/unreliable_receiver.h"

#include <array>
#include <cstring>

#include "stack/mem/copy.h"
#include "stack/qp/qp.h"
#include "stack/wire/headers_l3.h"

namespace roci {
namespace {

constexpr std::uint64_t kMaxMessageBytes = 1ull << 31;
/// What precedes the payload of a datagram in its receive buffer (IBTA 11.4.1.2; RoCE v2: A17.4.5.2).
constexpr std::uint32_t kGrhBytes = 40;

/// The network layer's header type, which some clients look for in the completion's service level.
constexpr std::uint8_t kSlOfIpv6 = 1;
constexpr std::uint8_t kSlOfIpv4 = 2;

/// IBTA 9.8.2.2.7: as in RC, first and middle packets are full, last ones are not empty, only ones may be.
bool length_fits(const Inbound& in, std::uint32_t mtu) {
  const std::uint32_t bytes = in.view.payload_bytes;
  switch (in.view.info->position) {
    case Position::kFirst:
    case Position::kMiddle:
      return bytes == mtu;
    case Position::kLast:
      return bytes >= 1 && bytes <= mtu;
    case Position::kOnly:
      return bytes <= mtu;
  }
  return false;
}

}  // namespace

void UnreliableReceiver::start(Psn expected_psn) {
  reset();
  expected_psn_ = expected_psn;
  receive_.allocate(qp_.receive_queue().stride());
}

void UnreliableReceiver::reset() {
  previous_ = Opcode::kUcSendOnly;
  receive_.release();
}

/// IBTA 9.8.2.2.2: after a gap, or an opcode that does not follow, only the start of a message counts.
bool UnreliableReceiver::is_in_sequence(const Inbound& in) {
  const bool is_expected = in.view.bth.psn == expected_psn_;
  expected_psn_ = in.view.bth.psn + 1;
  const bool continues = is_expected && follows(previous_, static_cast<Opcode>(in.view.bth.opcode));
  if (!is_expected) ++qp_.counters().out_of_sequence;
  if (!continues) drop_message();
  return continues || in.view.info->is_first();
}

void UnreliableReceiver::drop_message() {
  if (!opcode_info(previous_).is_last()) ++qp_.counters().uc_dropped_messages;
  previous_ = Opcode::kUcSendOnly;
  if (!receive_.in_use()) return;
  // One's own WQE takes the next message; one of an SRQ cannot wait for that (IBTA 9.9.3, classes D1 and E).
  if (qp_.srq() == nullptr)
    receive_.rewind();
  else
    fail_receive(WcStatus::kRemInvReqErr);
}

void UnreliableReceiver::on_request(const Inbound& in) {
  if (!is_in_sequence(in)) return;
  const Fault fault = length_fits(in, qp_.mtu()) ? execute(in) : Fault::kLength;
  if (fault != Fault::kNone) return refuse(fault);
  previous_ = static_cast<Opcode>(in.view.bth.opcode);
}

void UnreliableReceiver::refuse(Fault fault) {
  Counters& counters = qp_.counters();
  switch (fault) {
    case Fault::kReceiverNotReady:
      ++counters.out_of_buffer;
      break;
    case Fault::kReceiveTooShort:
      ++counters.resp_local_length_error;
      break;
    case Fault::kRemoteAccess:
      ++counters.resp_remote_access_errors;
      break;
    case Fault::kReceiveProtection:
      // The consumer's own fault, which the consumer hears of (IBTA 9.9.3, class A).
      ++counters.resp_remote_operational_errors;
      fail_receive(fault_info(fault).receive_status);
      return qp_.enter_error();
    default:
      ++counters.resp_remote_invalid_request;
  }
  if (qp_.type() == QpType::kUd) return;
  ++counters.uc_dropped_messages;
  previous_ = Opcode::kUcSendOnly;
  drop_message();
}

Fault UnreliableReceiver::execute(const Inbound& in) {
  if (in.view.info->operation == Operation::kSend) return execute_send(in);
  return (qp_.attr().access_flags & kAccessRemoteWrite) != 0 ? execute_write(in) : Fault::kOpcodeNotEnabled;
}

Fault UnreliableReceiver::take_receive() {
  if (receive_.in_use()) return Fault::kNone;
  if (!receive_.take(qp_.receive_queue())) return Fault::kReceiverNotReady;
  qp_.note_srq_consumed();
  return Fault::kNone;
}

Fault UnreliableReceiver::execute_send(const Inbound& in) {
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
  if (info.is_last()) complete_receive(in);
  return Fault::kNone;
}

Fault UnreliableReceiver::execute_write(const Inbound& in) {
  const OpcodeInfo& info = *in.view.info;
  const std::uint32_t bytes = in.view.payload_bytes;
  if (info.is_first()) {
    const Reth reth = in.view.reth();
    if (reth.dma_length > kMaxMessageBytes) return Fault::kLength;
    const KeyTable& keys = qp_.env().keys;
    // The whole range is checked before the first byte is written; none is if it is empty.
    if (reth.dma_length > 0 && keys.check_remote(reth.rkey.value, qp_.pd(), qp_.qpn(), reth.va, reth.dma_length,
                                                 kAccessRemoteWrite) == nullptr)
      return Fault::kRemoteAccess;
    write_va_ = reth.va;
    write_rkey_ = reth.rkey;
    write_left_ = reth.dma_length;
    received_bytes_ = 0;
  }
  if (info.is_last() ? bytes != write_left_ : bytes >= write_left_) return Fault::kLength;
  if (info.takes_recv_wqe) {
    const Fault fault = take_receive();
    if (fault != Fault::kNone) return fault;
  }
  if (bytes > 0) {
    std::byte* memory =
        qp_.env().keys.check_remote(write_rkey_.value, qp_.pd(), qp_.qpn(), write_va_, bytes, kAccessRemoteWrite);
    if (memory == nullptr || !qp_.env().keys.copy_payload(memory, in.payload, bytes)) return Fault::kRemoteAccess;
  }
  write_va_ += bytes;
  write_left_ -= bytes;
  received_bytes_ += bytes;
  ++qp_.counters().rx_write_requests;
  if (info.takes_recv_wqe) complete_receive(in);
  return Fault::kNone;
}

void UnreliableReceiver::on_datagram(const Inbound& in) {
  if (in.view.deth().qkey != qp_.attr().qkey) {
    ++qp_.counters().rx_bad_qkey;
    return;
  }
  const Fault fault = in.view.payload_bytes <= qp_.mtu() ? place_datagram(in) : Fault::kLength;
  if (fault != Fault::kNone) return refuse(fault);
  ++qp_.counters().rx_send_requests;
  received_bytes_ = kGrhBytes + in.view.payload_bytes;
  complete_receive(in);
}

Fault UnreliableReceiver::place_datagram(const Inbound& in) {
  if (const Fault fault = take_receive(); fault != Fault::kNone) return fault;
  // It stays the next one of this QP.
  if (receive_.total_bytes() < kGrhBytes + in.view.payload_bytes) return Fault::kReceiveTooShort;
  std::array<std::byte, kGrhBytes> grh{};
  const std::size_t l3_bytes = in.view.is_v4 ? Ipv4Header::kSize : Ipv6Header::kSize;
  std::memcpy(grh.data() + grh.size() - l3_bytes, in.view.l3_header(), l3_bytes);
  const bool placed = receive_.place(qp_.env().keys, qp_.receive_pd(), grh.data(), kGrhBytes) &&
                      receive_.place(qp_.env().keys, qp_.receive_pd(), in.payload, in.view.payload_bytes);
  return placed ? Fault::kNone : Fault::kReceiveProtection;
}

void UnreliableReceiver::complete_receive(const Inbound& in) {
  receive_.release();
  Cqe cqe{.wr_id = receive_.wr_id(),
          .byte_len = received_bytes_,
          .qpn = qp_.qpn(),
          .src_qpn = qp_.attr().dest_qpn,
          .opcode = WcOpcode::kRecv};
  note_last_packet(in.view, &cqe);
  if (qp_.type() == QpType::kUd) {
    cqe.src_qpn = in.view.deth().src_qpn;
    cqe.flags |= kWcGrh;
    cqe.sl = in.view.is_v4 ? kSlOfIpv4 : kSlOfIpv6;
  }
  qp_.complete(*qp_.recv_cq(), cqe);
}

void UnreliableReceiver::fail_receive(WcStatus status) {
  receive_.release();
  ++(status == WcStatus::kWrFlushErr ? qp_.counters().resp_cqe_flush_error : qp_.counters().resp_cqe_error);
  qp_.complete(*qp_.recv_cq(),
               {.wr_id = receive_.wr_id(), .qpn = qp_.qpn(), .status = status, .opcode = WcOpcode::kRecv});
}

void UnreliableReceiver::flush() {
  if (receive_.in_use()) fail_receive(WcStatus::kWrFlushErr);
}

}  // namespace roci
