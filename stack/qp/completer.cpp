#include "stack/qp/completer.h"

#include <algorithm>

#include "stack/base/bytes.h"
#include "stack/qp/qp.h"
#include "stack/qp/send_completion.h"

namespace roci {
namespace {

constexpr std::uint8_t kInfiniteRnrRetries = 7;
/// A peer that is alive but stopped (SIGSTOP, a debugger) is waited for this long before its silence counts.
constexpr Duration kStalledPeerPatience = seconds(60);

}  // namespace

void Completer::start() {
  deadline_ = kNever;
  retries_left_ = qp_.attr().retry_cnt;
  rnr_retries_left_ = qp_.attr().rnr_retry;
  rewound_ = false;
  stalled_since_ = kNever;
}

/// IBTA 9.7.6.1.3: no sooner than T = 4.096 us x 2^timeout, no later than 4 T; 0 is for ever. `now` was read before the
/// packet left, perhaps long before if the thread had to wait for its core: hence some more than T.
Duration Completer::timeout() const {
  constexpr Duration kSeveralTimeSlices = milliseconds(20);
  const Duration least = nanoseconds(std::int64_t{4096} << qp_.attr().timeout);
  return least + std::min(least, Duration{least.ps / 4} + kSeveralTimeSlices);
}

void Completer::restart_timer(Instant now) {
  const bool armed = qp_.requester().has_outstanding() && qp_.attr().timeout != 0;
  deadline_ = armed ? std::max(now, qp_.requester().paused_until()) + timeout() : kNever;
}

void Completer::on_sent(Instant now, bool awaited) {
  if (!awaited || deadline_ == kNever) restart_timer(now);
}

void Completer::note_progress(Instant now) {
  retries_left_ = qp_.attr().retry_cnt;
  rnr_retries_left_ = qp_.attr().rnr_retry;
  rewound_ = false;
  stalled_since_ = kNever;
  restart_timer(now);
}

inline void Completer::complete_oldest(WcStatus status) {
  // Whoever sees the CQE may post again at once, perhaps on another core: the WQE is outstanding no more before that.
  const SendWqe& wqe = qp_.sq().at(qp_.sq().head());
  if (status == WcStatus::kSuccess)
    qp_.requester().pop_oldest();
  else
    qp_.requester().drop_oldest();
  add_send_completion(qp_, wqe, status);
}

void Completer::complete_local() {
  while (qp_.requester().take_executed_oldest()) complete_oldest(WcStatus::kSuccess);
}

bool Completer::complete_through(Psn psn) {
  Requester& requester = qp_.requester();
  for (SendWqe* wqe = requester.oldest(); wqe != nullptr; wqe = requester.oldest()) {
    if (requester.has_executed_oldest()) [[unlikely]] {
      complete_local();
      continue;
    }
    // Both seen from what is unacknowledged: the start of a long message may be half the PSN space away from `psn`.
    const Psn unacked = requester.unacked_psn();
    if (wqe->first_psn.distance_from(unacked) > psn.distance_from(unacked)) break;
    if (wqe->is_read_or_atomic()) {
      if (requester.unacked_psn().before(wqe->first_psn)) requester.advance_unacked(wqe->first_psn);
      return false;
    }
    if (wqe->last_psn.after(psn)) break;
    complete_oldest(WcStatus::kSuccess);
  }
  requester.advance_unacked(psn + 1);
  return true;
}

void Completer::on_acknowledge(const Inbound& in) {
  const Psn psn = in.view.bth.psn;
  Requester& requester = qp_.requester();
  ++qp_.counters().rx_acks;
  if (!requester.is_outstanding(psn)) {
    ++qp_.counters().rx_ghost_acknowledge;
    return;
  }
  const Aeth aeth = in.view.aeth();
  if (is_reserved_syndrome(aeth.syndrome)) [[unlikely]] {
    ++qp_.counters().rx_reserved_syndrome;
    return;
  }
  const AethKind kind = aeth_kind(aeth.syndrome);
  // A NAK acknowledges everything before its PSN; an ACK its own PSN too (IBTA 9.7.5.1.2).
  const Psn last_acked = kind == AethKind::kAck ? psn : psn - 1;
  const Psn before = requester.unacked_psn();
  if (kind == AethKind::kAck) requester.credits().update(aeth);
  bool complete = true;
  if (!last_acked.before(before)) complete = complete_through(last_acked);
  if (requester.unacked_psn() != before) note_progress(in.now);
  qp_.note_answer(in, kind != AethKind::kAck);
  if (!complete) return on_implied_nak(in.now);
  if (kind == AethKind::kAck) return;
  const std::uint8_t value = aeth_value(aeth.syndrome);
  if (kind == AethKind::kRnrNak) return on_rnr_nak(psn, value, in.now);
  const auto code = static_cast<NakCode>(value);
  return code == NakCode::kPsnSequenceError ? on_sequence_nak(psn, in.now) : on_fatal_nak(code);
}

bool Completer::use_retry() {
  if (retries_left_ == 0) {
    ++qp_.counters().req_transport_retries_exceeded;
    fail_oldest(WcStatus::kRetryExcErr);
    return false;
  }
  --retries_left_;
  return true;
}

void Completer::on_implied_nak(Instant now) {
  // Further acknowledgements may follow the same gap: go back once, then let the timeout decide.
  if (rewound_) return;
  ++qp_.counters().implied_nak_seq_err;
  rewound_ = true;
  qp_.requester().rewind_to(qp_.requester().unacked_psn());
  qp_.note_loss(now, CcLoss::kNakSequence);
  restart_timer(now);
}

void Completer::on_sequence_nak(Psn psn, Instant now) {
  ++qp_.counters().packet_seq_err;
  // A responder sends one NAK a gap. A second one without progress is a duplicate: the timeout has the last word.
  if (rewound_) return;
  rewound_ = true;
  qp_.requester().rewind_to(psn);
  qp_.note_loss(now, CcLoss::kNakSequence);
  restart_timer(now);
}

void Completer::on_rnr_nak(Psn psn, std::uint8_t timer_code, Instant now) {
  ++qp_.counters().rnr_nak_retry_err;
  if (qp_.attr().rnr_retry != kInfiniteRnrRetries) {
    if (rnr_retries_left_ == 0) {
      ++qp_.counters().req_rnr_retries_exceeded;
      return fail_oldest(WcStatus::kRnrRetryExcErr);
    }
    --rnr_retries_left_;
  }
  qp_.requester().rewind_to(psn);
  qp_.requester().pause_until(now + rnr_timer(timer_code));
  qp_.note_loss(now, CcLoss::kRnr);
  restart_timer(now);
}

void Completer::on_fatal_nak(NakCode code) {
  switch (code) {
    case NakCode::kInvalidRequest:
      ++qp_.counters().req_remote_invalid_request;
      return fail_oldest(WcStatus::kRemInvReqErr);
    case NakCode::kRemoteAccessError:
      ++qp_.counters().req_remote_access_errors;
      return fail_oldest(WcStatus::kRemAccessErr);
    case NakCode::kRemoteOperationalError:
      ++qp_.counters().req_remote_operational_errors;
      return fail_oldest(WcStatus::kRemOpErr);
    default:
      return fail_oldest(WcStatus::kRemInvRdReqErr);
  }
}

/// IBTA 9.9.2: a response that the request at its PSN does not call for.
void Completer::on_bad_response() {
  ++qp_.counters().req_bad_responses;
  fail_oldest(WcStatus::kBadRespErr);
}

SendWqe* Completer::take_response(const Inbound& in) {
  const Psn psn = in.view.bth.psn;
  Requester& requester = qp_.requester();
  if (!requester.is_outstanding(psn)) {
    ++qp_.counters().rx_ghost_acknowledge;
    return nullptr;
  }
  // A response says nothing but "done" (IBTA 9.7.5.2.1).
  if (in.view.info->has(Extension::kAeth) && aeth_kind(in.view.aeth().syndrome) != AethKind::kAck) [[unlikely]] {
    ++qp_.counters().rx_reserved_syndrome;
    return nullptr;
  }
  // It acknowledges all requests before it (IBTA 9.7.5.1.2).
  const Psn before = requester.unacked_psn();
  if (psn != before && !complete_through(psn - 1)) {
    if (requester.unacked_psn() != before) note_progress(in.now);
    on_implied_nak(in.now);
    return nullptr;
  }
  SendWqe* wqe = requester.oldest();
  if (wqe == nullptr || psn.before(wqe->first_psn)) {
    ++qp_.counters().rx_ghost_acknowledge;
    return nullptr;
  }
  return wqe;
}

/// Where a READ response may begin or end: at the ends of what was asked for, and nowhere else.
bool Completer::position_fits(const OpcodeInfo& info, const SendWqe& wqe, Psn psn) const {
  const auto index = static_cast<std::uint32_t>(psn.distance_from(wqe.first_psn));
  const bool ends = psn == wqe.last_psn || (index + 1) % qp_.window().read_packets == 0;
  if (info.is_last() != ends) return false;
  // To a request from the middle on some responders answer as if it were the first one still.
  return psn == wqe.first_psn ? info.is_first() : !info.is_first() || psn == qp_.requester().read_resumed_at();
}

void Completer::on_read_response(const Inbound& in) {
  const Psn psn = in.view.bth.psn;
  Requester& requester = qp_.requester();
  const SendWqe* wqe = take_response(in);
  if (wqe == nullptr) return;
  if (wqe->opcode != WrOpcode::kRdmaRead || !position_fits(*in.view.info, *wqe, psn)) return on_bad_response();
  const bool is_last = psn == wqe->last_psn;
  const std::uint32_t offset = static_cast<std::uint32_t>(psn.distance_from(wqe->first_psn)) << qp_.mtu_shift();
  if (in.view.payload_bytes != (is_last ? wqe->length - offset : qp_.mtu())) return on_bad_response();
  SgeCursor cursor;
  cursor.seek(wqe->sges(), wqe->num_sge, offset);
  if (!cursor.scatter(qp_.env().keys, qp_.pd(), wqe->sges(), wqe->num_sge, in.payload, in.view.payload_bytes))
    return fail_oldest(WcStatus::kLocProtErr);
  if (in.view.info->has(Extension::kAeth)) requester.credits().update(in.view.aeth());
  if (is_last) {
    complete_oldest(WcStatus::kSuccess);
    complete_local();
  }
  requester.advance_unacked(psn + 1);
  note_progress(in.now);
  qp_.note_answer(in, false);
}

void Completer::on_atomic_response(const Inbound& in) {
  const Psn psn = in.view.bth.psn;
  Requester& requester = qp_.requester();
  const SendWqe* wqe = take_response(in);
  if (wqe == nullptr) return;
  if (!wqe->is_read_or_atomic() || wqe->opcode == WrOpcode::kRdmaRead) return on_bad_response();
  const std::uint64_t original = in.view.atomic_ack_eth().original;
  SgeCursor cursor;
  if (!cursor.scatter(qp_.env().keys, qp_.pd(), wqe->sges(), wqe->num_sge,
                      reinterpret_cast<const std::byte*>(&original), sizeof original))
    return fail_oldest(WcStatus::kLocProtErr);
  requester.credits().update(in.view.aeth());
  complete_oldest(WcStatus::kSuccess);
  complete_local();
  requester.advance_unacked(psn + 1);
  note_progress(in.now);
  qp_.note_answer(in, false);
}

void Completer::on_deadline(Instant now, bool peer_stalled) {
  if (now < deadline_) return;
  if (!qp_.requester().has_outstanding()) {
    deadline_ = kNever;
    return;
  }
  // What asks for the answer may not have left yet, for want of room in the link.
  if (peer_stalled || !qp_.requester().awaits_answer()) {
    if (stalled_since_ == kNever) stalled_since_ = now;
    if (now - stalled_since_ < kStalledPeerPatience) {
      if (peer_stalled) ++qp_.counters().peer_stalled_waits;
      return restart_timer(now);
    }
  }
  ++qp_.counters().local_ack_timeout_err;
  if (!use_retry()) return;
  qp_.note_loss(now, CcLoss::kTimeout);
  // A gap seen after this retransmission is a new one.
  rewound_ = false;
  qp_.requester().rewind_to(qp_.requester().unacked_psn());
  restart_timer(now);
}

void Completer::fail_oldest(WcStatus status) {
  if (qp_.sq().head() != qp_.sq().tail()) complete_oldest(status);
  qp_.enter_error();
}

void Completer::flush_oldest() { complete_oldest(WcStatus::kWrFlushErr); }

}  // namespace roci
