#include "stack/qp/qp.h"

#include <algorithm>
#include <utility>

#include "stack/qp/address_handle.h"
#include "stack/qp/egress_class.h"
#include "stack/wire/traffic_class.h"

namespace roci {
namespace {

/// ibv_mtu code 1 is 256 bytes, 2^8.
constexpr std::uint8_t kMtuCodeToShift = 7;

bool receives(QpState state) {
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd || state == QpState::kSqe;
}

/// PacketClass bits of what a state of RC, which has no SQE, lets in: an answer can only come to what was sent.
std::uint8_t accepted_in(QpState state) {
  if (!receives(state) || state == QpState::kSqe) return 0;
  return state == QpState::kRtr ? kRcRequest : kRcRequest | kRcResponse;
}

}  // namespace

Qp::Qp(const QpIdentity& identity, const QpCapacity& capacity, QpEnvironment& env)
    : identity_(identity),
      capacity_(capacity),
      env_(env),
      sq_(capacity.max_send_wr, capacity.max_send_sge, capacity.max_inline_data, identity.signal_all),
      rq_(capacity.max_recv_wr, capacity.max_recv_sge),
      requester_(*this),
      completer_(*this),
      responder_(*this) {
  if (identity.type == QpType::kRc) return;
  unreliable_ = std::make_unique<Unreliable>(*this);
  mtu_shift_ = env.active_mtu + kMtuCodeToShift;
}

void Qp::count_stranger(const Inbound& in) {
  ++(in.view.source() != path_.destination() ? counters().rx_wrong_source : counters().rx_wrong_destination);
}

/// Of a datagram: it is sent to one of the port's addresses, or to a multicast group, which the QP is in.
bool Qp::is_for_port(const Inbound& in) {
  if (in.view.bth.dest_qpn == kMulticastQpn) return true;
  if (std::find(env_.gids.begin(), env_.gids.end(), in.view.destination()) != env_.gids.end()) return true;
  ++counters().rx_wrong_destination;
  return false;
}

void Qp::on_packet(const Inbound& in) {
  const OpcodeInfo& info = *in.view.info;
  if ((info.packet_class & accepts_) == 0) [[unlikely]]
    return on_other_packet(in);
  if (!path_.is_reverse_of(in.view)) [[unlikely]]
    return count_stranger(in);
  if (ecn_of(in.view.traffic_class) == Ecn::kCe) [[unlikely]]
    on_marked(in.now);
  if (!info.is_response()) {
    if (state() == QpState::kRtr && !std::exchange(communication_established_, true))
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

/// All packets of UC and UD, and of RC those that are not for it or come at the wrong time.
void Qp::on_other_packet(const Inbound& in) {
  const PacketClass wanted = type() == QpType::kUd ? kDatagram : kUcRequest;
  const bool is_ours =
      unreliable_ == nullptr ? in.view.info->transport == Transport::kRc : in.view.info->packet_class == wanted;
  if (!is_ours || unreliable_ == nullptr || !receives(state())) {
    ++(is_ours ? counters().rx_qp_not_ready : counters().rx_unknown_opcode);
    return;
  }
  if (type() == QpType::kUc && !path_.is_reverse_of(in.view)) return count_stranger(in);
  if (type() == QpType::kUd && !is_for_port(in)) return;
  if (ecn_of(in.view.traffic_class) == Ecn::kCe) ++counters().np_ecn_marked_roce_packets;
  if (type() == QpType::kUc) {
    if (state() == QpState::kRtr && !std::exchange(communication_established_, true))
      env_.raise({.type = AsyncEventType::kCommEst, .qp = this});
    unreliable_->receiver.on_request(in);
  } else {
    unreliable_->receiver.on_datagram(in);
  }
  check_lost_completion();
}

Instant Qp::next_send(Instant now) {
  if (responder_.has_response() && !responder_.next_is_data()) return now;
  const bool has_request = may_request_ && requester_.can_send(now);
  if (has_request || responder_.has_response()) return pacer.next();
  return unreliable_ == nullptr ? kNever : next_unreliable_send(now);
}

Instant Qp::next_unreliable_send(Instant now) {
  if (!unreliable_->sender.can_send()) return kNever;
  if (type() == QpType::kUc) return now;
  // In a queue of the scheduler it stays where it is.
  if (flow_state == egress::FlowState::kIdle) priority = unreliable_->sender.next_address().priority;
  return now;
}

bool Qp::choose_route() {
  const UnreliableSender& sender = unreliable_->sender;
  if (!sender.can_send()) return false;
  route_ = sender.next_address().route_to(sender.next_target(), env_.worker);
  return true;
}

std::uint32_t Qp::next_packet(Instant now, std::byte* frame) {
  responder_turn_ = !responder_turn_;
  std::uint32_t bytes = responder_turn_ ? next_response(now, frame) : 0;
  if (bytes == 0) bytes = next_request(now, frame);
  return bytes != 0 ? bytes : next_response(now, frame);
}

std::uint32_t Qp::next_response(Instant now, std::byte* frame) {
  if (!responder_.has_response()) return 0;
  const bool is_data = responder_.next_is_data();
  if (is_data && now < pacer.next()) return 0;
  const std::uint32_t bytes = responder_.next_packet(*route_, frame);
  if (is_data && bytes != 0 && congestion_ != nullptr) congestion_->on_sent(now, bytes, env_.egress.catch_up);
  return bytes;
}

std::uint32_t Qp::next_request(Instant now, std::byte* frame) {
  if (now < pacer.next() || !may_request_) [[unlikely]] {
    const std::uint32_t bytes = unreliable_ == nullptr ? 0 : unreliable_->sender.next_packet(*route_, frame);
    check_drained();
    return bytes;
  }
  const bool awaited = requester_.awaits_answer();
  const bool resumes = !requester_.has_outstanding();
  const std::uint32_t bytes = requester_.next_packet(now, *route_, frame);
  if (bytes == 0) {
    check_failed_wqe();
    return 0;
  }
  completer_.on_sent(now, awaited);
  if (congestion_ != nullptr) {
    if (resumes) congestion_->on_idle_resume(now);
    congestion_->on_sent(now, bytes, env_.egress.catch_up);
    congestion_->on_request_sent(now, requester_.next_psn());
  }
  return bytes;
}

void Qp::on_marked(Instant now) {
  ++counters().np_ecn_marked_roce_packets;
  if (congestion_ == nullptr || !congestion_->on_marked(now) || std::exchange(cnp_due_, true)) return;
  env_.cnps.push_back(this);
}

std::uint32_t Qp::build_cnp(std::byte* frame) {
  cnp_due_ = false;
  ++counters().np_cnp_sent;
  return path_.build_cnp(frame, *route_, env_.egress.cnp_dscp);
}

void Qp::on_cnp(const Inbound& in) {
  if (state() != QpState::kRts || congestion_ == nullptr || !path_.is_reverse_of(in.view)) {
    ++counters().rp_cnp_ignored;
    return;
  }
  ++counters().rp_cnp_handled;
  congestion_->on_cnp(in.now);
  obey_window();
}

void Qp::on_doorbell() {
  if (state() == QpState::kErr) flush();
  if (state() == QpState::kSqe && unreliable_ != nullptr) unreliable_->sender.flush();
}

Instant Qp::next_deadline() const {
  const Instant of_congestion = congestion_ != nullptr ? congestion_->deadline() : kNever;
  if (state() != QpState::kRts && state() != QpState::kSqd) return of_congestion;
  const Instant paused = requester_.paused_until();
  return std::min({completer_.next_deadline(), paused == Instant{} ? kNever : paused, of_congestion});
}

void Qp::on_deadline(Instant now, bool peer_stalled) {
  if (congestion_ != nullptr) {
    congestion_->on_deadline(now);
    obey_window();
  }
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
  const bool is_drained = unreliable_ == nullptr ? requester_.is_drained() : unreliable_->sender.is_drained();
  if (!attr_.sq_draining || !is_drained) return;
  attr_.sq_draining = false;
  if (attr_.en_sqd_async_notify) env_.raise({.type = AsyncEventType::kSqDrained, .qp = this});
}

void Qp::enter_error() {
  if (state() == QpState::kErr) return;
  move_to(QpState::kErr);
}

void Qp::enter_send_error() {
  if (state() != QpState::kErr) move_to(QpState::kSqe);
}

void Qp::reset_machines() {
  send_cq()->forget(sq_);
  forget_sends();
  if (unreliable_ != nullptr) unreliable_->receiver.reset();
  sq_.clear();
  rq_.clear();
  requester_.reset();
  responder_.reset();
  completer_.start();
  communication_established_ = false;
  lost_completion_ = false;
}

void Qp::move_to(QpState target) {
  state_.store(target, std::memory_order_seq_cst);
  const bool is_rc = type() == QpType::kRc;
  accepts_ = is_rc ? accepted_in(target) : 0;
  may_request_ = is_rc && (target == QpState::kRts || target == QpState::kSqd);
  switch (target) {
    case QpState::kReset:
      reset_machines();
      break;
    case QpState::kSqe:
      if (unreliable_ != nullptr) unreliable_->sender.flush();
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
  if (unreliable_ == nullptr) {
    responder_.flush();
    while (sq_.head() != sq_.tail()) completer_.flush_oldest();
  } else {
    unreliable_->receiver.flush();
    unreliable_->sender.flush();
  }
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
  if (srq == nullptr) return;
  std::uint32_t limit = srq->limit.load(std::memory_order_relaxed);
  if (limit == 0 || srq->queue.size() >= limit) return;
  // Of several workers that see it one tells of it.
  if (!srq->limit.compare_exchange_strong(limit, 0, std::memory_order_relaxed)) return;
  env_.raise({.type = AsyncEventType::kSrqLimitReached, .srq = srq});
}

void Qp::set_route(Route* route, const IpAddress& source, const AddressVector& av, Qpn dest_qpn) {
  const AddressVector used = marked(av, env_.egress);
  route_ = route;
  const bool is_controlled = env_.cc.make != nullptr && type() == QpType::kRc;
  if (is_controlled && congestion_ == nullptr)
    congestion_ = std::make_unique<Congestion>(env_.cc, pacer, qpn(), env_.counters.rates);
  constexpr std::uint32_t kMarkNeeds = kCcCnp | kCcEcnEcho;
  const bool ecn_capable = congestion_ != nullptr && (congestion_->needs() & kMarkNeeds) != 0;
  path_.set(source, used, udp_source_port(av.flow_label, qpn(), dest_qpn), dest_qpn, ecn_capable);
  priority = priority_of(used, env_.egress);
}

/// Once the path is known. A controller lives from RTR on, since responses may meet congestion too.
void Qp::start_congestion() {
  window_packets_ = env_.window.packets;
  if (congestion_ == nullptr) return;
  CcPath path = env_.cc_path;
  path.mtu_bytes = mtu();
  path.header_bytes = path_.full_packet_overhead() + egress::kWireOverheadBytes;
  congestion_->start(path, env_.now);
  obey_window();
}

void Qp::note_answer(const Inbound& in, bool nak) {
  if (congestion_ == nullptr) return;
  congestion_->on_ack(in.now, requester_.unacked_psn(), requester_.next_psn(), in.view.bth.becn, nak);
  obey_window();
}

void Qp::note_loss(Instant now, CcLoss loss) {
  if (congestion_ == nullptr) return;
  congestion_->on_loss(now, loss, mtu());
  obey_window();
}

void Qp::obey_window() {
  const std::uint64_t packets = std::max<std::uint64_t>(1, congestion_->window_bytes() >> mtu_shift_);
  window_packets_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(env_.window.packets, packets));
}

void Qp::start_receiving() {
  if (unreliable_ != nullptr) return unreliable_->receiver.start(attr_.rq_psn);
  responder_.start(attr_.rq_psn);
  start_congestion();
}

void Qp::start_sending() {
  if (unreliable_ != nullptr) return unreliable_->sender.start(attr_.sq_psn);
  requester_.start(attr_.sq_psn);
  if (congestion_ != nullptr) congestion_->start_requests(attr_.sq_psn);
  completer_.start();
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
  if (attr.state == QpState::kRtr) start_receiving();
  if (attr.state == QpState::kRts && state() == QpState::kRtr) start_sending();
  move_to(attr.state);
}

QpAttr Qp::query() const {
  QpAttr attr = attr_;
  attr.state = attr.cur_state = state();
  attr.sq_draining = state() == QpState::kSqd && attr_.sq_draining;
  return attr;
}

}  // namespace roci
