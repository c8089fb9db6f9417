#include "stack/qp/qp.h"

#include <algorithm>
#include <utility>

namespace roci {
namespace {

/// ibv_mtu code 1 is 256 bytes, 2^8.
constexpr std::uint8_t kMtuCodeToShift = 7;

}  // namespace

Qp::Qp(const QpIdentity& identity, const QpCapacity& capacity, QpEnvironment& env)
    : identity_(identity),
      capacity_(capacity),
      env_(env),
      sq_(capacity.max_send_wr, capacity.max_send_sge, capacity.max_inline_data, identity.signal_all),
      rq_(capacity.max_recv_wr, capacity.max_recv_sge),
      requester_(*this),
      completer_(*this),
      responder_(*this) {}

void Qp::on_packet(const Inbound& in) {
  const OpcodeInfo& info = *in.view.info;
  const QpState now = state();
  if (info.transport != Transport::kRc) {
    ++counters().rx_unknown_opcode;
    return;
  }
  const bool may_receive = now == QpState::kRtr || now == QpState::kRts || now == QpState::kSqd;
  if (!may_receive || (info.is_response() && now == QpState::kRtr)) {
    ++counters().rx_qp_not_ready;
    return;
  }
  if (!path_.is_reverse_of(in.view)) [[unlikely]] {
    ++(in.view.source() != path_.destination() ? counters().rx_wrong_source : counters().rx_wrong_destination);
    return;
  }
  if (!info.is_response()) {
    if (now == QpState::kRtr && !std::exchange(communication_established_, true))
      env_.raise({.type = AsyncEventType::kCommEst, .qp = this});
    responder_.on_request(in);
    return check_lost_completion();
  }
  switch (info.operation) {
    case Operation::kRdmaReadResponse:
      completer_.on_read_response(in);
      break;
    case Operation::kAtomicAcknowledge:
      completer_.on_atomic_response(in);
      break;
    default:
      completer_.on_acknowledge(in);
  }
  check_failed_wqe();
  check_drained();
  check_lost_completion();
}

bool Qp::wants_to_send(Instant now) {
  if (responder_.has_response()) return true;
  return (state() == QpState::kRts || state() == QpState::kSqd) && requester_.can_send(now);
}

std::uint32_t Qp::next_packet(Instant now, std::byte* frame) {
  responder_turn_ = !responder_turn_;
  if (responder_turn_ && responder_.has_response()) {
    const std::uint32_t bytes = responder_.next_packet(*route_, frame);
    if (bytes != 0) return bytes;
  }
  if (state() == QpState::kRts || state() == QpState::kSqd) {
    const bool awaited = requester_.awaits_answer();
    const std::uint32_t bytes = requester_.next_packet(now, *route_, frame);
    if (bytes != 0) {
      completer_.on_sent(now, awaited);
      return bytes;
    }
    check_failed_wqe();
  }
  return responder_.has_response() ? responder_.next_packet(*route_, frame) : 0;
}

void Qp::on_doorbell() {
  if (state() == QpState::kErr) flush();
}

Instant Qp::next_deadline() const {
  if (state() != QpState::kRts && state() != QpState::kSqd) return kNever;
  const Instant paused = requester_.paused_until();
  return std::min(completer_.next_deadline(), paused == Instant{} ? kNever : paused);
}

void Qp::on_deadline(Instant now, bool peer_stalled) {
  if (state() != QpState::kRts && state() != QpState::kSqd) return;
  if (now >= requester_.paused_until()) requester_.pause_until({});
  completer_.on_deadline(now, peer_stalled);
  check_lost_completion();
}

void Qp::complete(Cq& cq, const Cqe& cqe) { lost_completion_ |= !env_.complete(cq, cqe); }

/// A QP that cannot tell its consumer what it has done must not do more (IBTA 10.10.2, local work queue error).
void Qp::check_lost_completion() {
  if (!std::exchange(lost_completion_, false) || state() == QpState::kErr) return;
  env_.raise({.type = AsyncEventType::kQpFatal, .qp = this});
  enter_error();
}

void Qp::check_failed_wqe() {
  if (!requester_.has_failed()) return;
  const WcStatus status = requester_.failure_due();
  if (status != WcStatus::kSuccess && state() != QpState::kErr) completer_.fail_oldest(status);
}

void Qp::check_drained() {
  if (!attr_.sq_draining || !requester_.is_drained()) return;
  attr_.sq_draining = false;
  if (attr_.en_sqd_async_notify) env_.raise({.type = AsyncEventType::kSqDrained, .qp = this});
}

void Qp::enter_error() {
  if (state() == QpState::kErr) return;
  move_to(QpState::kErr);
}

void Qp::move_to(QpState target) {
  state_.store(target, std::memory_order_seq_cst);
  switch (target) {
    case QpState::kReset:
      send_cq()->forget(sq_);
      sq_.clear();
      rq_.clear();
      requester_.reset();
      responder_.reset();
      completer_.start();
      communication_established_ = false;
      lost_completion_ = false;
      break;
    case QpState::kErr:
      flush();
      if (identity_.srq != nullptr) env_.raise({.type = AsyncEventType::kQpLastWqeReached, .qp = this});
      break;
    case QpState::kSqd:
      attr_.sq_draining = true;
      check_drained();
      break;
    default:
      break;
  }
}

void Qp::flush() {
  responder_.flush();
  while (sq_.head() != sq_.tail()) completer_.flush_oldest();
  complete_flushed_receives();
}

void Qp::complete_flushed_receives() {
  if (identity_.srq != nullptr) return;
  for (const RecvWqe* wqe = rq_.front(); wqe != nullptr; wqe = rq_.front()) {
    ++counters().resp_cqe_flush_error;
    complete(*recv_cq(),
             {.wr_id = wqe->wr_id, .qpn = qpn(), .status = WcStatus::kWrFlushErr, .opcode = WcOpcode::kRecv});
    rq_.pop();
  }
}

void Qp::note_srq_consumed() {
  Srq* srq = identity_.srq;
  if (srq == nullptr || srq->limit == 0 || srq->queue.size() >= srq->limit) return;
  srq->limit = 0;
  env_.raise({.type = AsyncEventType::kSrqLimitReached, .srq = srq});
}

bool Qp::invalidate(RKey) { return false; }

void Qp::set_route(Route* route, const IpAddress& source, const AddressVector& av, Qpn dest_qpn) {
  route_ = route;
  path_.set(source, av, udp_source_port(av.flow_label, qpn(), dest_qpn), dest_qpn);
}

void Qp::apply(const QpAttr& attr, std::uint32_t mask) {
  if ((mask & kQpAccessFlags) != 0) attr_.access_flags = attr.access_flags;
  if ((mask & kQpPkeyIndex) != 0) attr_.pkey_index = attr.pkey_index;
  if ((mask & kQpPort) != 0) attr_.port_num = attr.port_num;
  if ((mask & kQpQkey) != 0) attr_.qkey = attr.qkey;
  if ((mask & kQpAv) != 0) attr_.av = attr.av;
  if ((mask & kQpPathMtu) != 0) {
    attr_.path_mtu = attr.path_mtu;
    mtu_shift_ = attr.path_mtu + kMtuCodeToShift;
  }
  if ((mask & kQpTimeout) != 0) attr_.timeout = attr.timeout;
  if ((mask & kQpRetryCnt) != 0) attr_.retry_cnt = attr.retry_cnt;
  if ((mask & kQpRnrRetry) != 0) attr_.rnr_retry = attr.rnr_retry;
  if ((mask & kQpRqPsn) != 0) attr_.rq_psn = attr.rq_psn;
  if ((mask & kQpMaxQpRdAtomic) != 0) attr_.max_rd_atomic = attr.max_rd_atomic;
  if ((mask & kQpMinRnrTimer) != 0) attr_.min_rnr_timer = attr.min_rnr_timer;
  if ((mask & kQpSqPsn) != 0) attr_.sq_psn = attr.sq_psn;
  if ((mask & kQpMaxDestRdAtomic) != 0) attr_.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  if ((mask & kQpDestQpn) != 0) attr_.dest_qpn = attr.dest_qpn;
  if ((mask & kQpEnSqdAsyncNotify) != 0) attr_.en_sqd_async_notify = attr.en_sqd_async_notify;
  if ((mask & kQpStateAttr) == 0 || attr.state == state()) return;
  if (attr.state == QpState::kRtr) responder_.start(attr_.rq_psn);
  if (attr.state == QpState::kRts && state() == QpState::kRtr) {
    requester_.start(attr_.sq_psn);
    completer_.start();
  }
  move_to(attr.state);
}

QpAttr Qp::query() const {
  QpAttr attr = attr_;
  attr.state = attr.cur_state = state();
  attr.sq_draining = state() == QpState::kSqd && attr_.sq_draining;
  return attr;
}

}  // namespace roci
