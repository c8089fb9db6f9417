#include "stack/qp/congestion.h"

#include <algorithm>
#include <utility>

namespace roci {

Congestion::Congestion(const CcSpec& spec, egress::Pacer& pacer, Qpn qpn, std::span<QpRate> rates)
    : spec_(spec), pacer_(pacer), notifier_(spec.cnp_interval) {
  const auto row = std::find_if(rates.begin(), rates.end(), [](const QpRate& one) { return one.qpn == 0; });
  if (row != rates.end()) {
    rate_row_ = &*row;
    rate_row_->qpn = qpn.value;
  }
  make();
}

Congestion::~Congestion() {
  if (rate_row_ != nullptr) *rate_row_ = {};
}

void Congestion::publish() {
  constexpr double kMillion = 1e6;
  if (rate_row_ == nullptr) return;
  const CongestionControl::State state = algorithm_->state();
  rate_row_->current_rate_bps = state.current_rate_bps;
  rate_row_->target_rate_bps = state.target_rate_bps;
  rate_row_->alpha_ppm = static_cast<std::uint64_t>(state.alpha * kMillion);
}

void Congestion::make() {
  algorithm_ = spec_.make(spec_.parameters.get(), storage_.data());
  needs_ = algorithm_->needs();
}

void Congestion::start(const CcPath& path, Instant now) {
  line_rate_bps_ = path.line_rate_bps;
  make();
  out_ = {};
  mtu_bytes_ = path.mtu_bytes;
  acked_seq_ = 0;
  probe_sent_ = kNever;
  burst_wire_bytes_ = 0;
  algorithm_->start(path, now, out_);
  obey();
  publish();
}

void Congestion::obey() {
  const std::uint64_t rate = out_.rate_bps >= line_rate_bps_ ? 0 : out_.rate_bps;
  if (rate != pacer_.rate_bps()) pacer_.set_rate(rate);
}

void Congestion::on_cnp(Instant now) {
  if ((needs_ & kCcCnp) == 0) return;
  algorithm_->on_cnp(now, out_);
  obey();
  publish();
}

void Congestion::on_sent(Instant now, std::uint32_t frame_bytes, Duration catch_up) {
  const std::uint32_t wire_bytes = frame_bytes + egress::kWireOverheadBytes;
  pacer_.on_sent(now, wire_bytes, catch_up);
  burst_wire_bytes_ += wire_bytes;
}

void Congestion::end_burst(Instant now) {
  const std::uint32_t wire_bytes = std::exchange(burst_wire_bytes_, 0);
  if (wire_bytes == 0 || (needs_ & kCcSendEvents) == 0) return;
  algorithm_->on_send({.now = now, .snd_nxt = seq_of(next_psn_), .bytes = wire_bytes}, out_);
  obey();
}

void Congestion::on_request_sent(Instant now, Psn next_psn) {
  next_psn_ = next_psn;
  if (probe_sent_ != kNever || (needs_ & kCcRtt) == 0) return;
  probe_psn_ = next_psn;
  probe_sent_ = now;
}

void Congestion::on_ack(Instant now, Psn unacked_psn, Psn next_psn, bool marked, bool nak) {
  constexpr std::uint32_t kAckNeeds = kCcEcnEcho | kCcRtt | kCcRemoteDelay | kCcInt | kCcAckEveryPacket;
  if ((needs_ & kAckNeeds) == 0) return;
  const std::uint64_t acked_seq = seq_of(unacked_psn);
  CcAck ack{.now = now, .acked_seq = acked_seq, .nak = nak};
  ack.newly_acked_bytes = static_cast<std::uint32_t>(acked_seq - acked_seq_);
  ack.marked_bytes = marked ? ack.newly_acked_bytes : 0;
  acked_seq_ = acked_seq;
  acked_psn_ = unacked_psn;
  ack.snd_nxt = seq_of(next_psn);
  ack.inflight_bytes = static_cast<std::uint32_t>(ack.snd_nxt - acked_seq);
  if (probe_sent_ != kNever && !unacked_psn.before(probe_psn_)) {
    ack.rtt = now - probe_sent_;
    probe_sent_ = kNever;
  }
  algorithm_->on_ack(ack, out_);
  obey();
}

void Congestion::on_loss(Instant now, CcLoss loss, std::uint32_t bytes) {
  // What is sent again says nothing about the time that it took.
  probe_sent_ = kNever;
  algorithm_->on_loss(now, loss, bytes, out_);
  obey();
}

void Congestion::on_idle_resume(Instant now) {
  algorithm_->on_idle_resume(now, out_);
  obey();
}

void Congestion::on_deadline(Instant now) {
  if (now < out_.deadline) return;
  out_.deadline = kNever;
  algorithm_->on_timer(now, out_);
  obey();
  publish();
}

}  // namespace roci
