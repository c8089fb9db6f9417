// Congestion control of one QP: feeds its algorithm with what happens, and its pacer and window with the answer. A QP
// without an algorithm has none of this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cc/congestion_control.h"
#include "cc/notification_point.h"
#include "stack/base/counters.h"
#include "stack/base/types.h"
#include "stack/egress/pacer.h"

namespace roci {

/// The algorithm's sequence numbers are bytes: PSNs since the start times the MTU. Owner: worker.
class Congestion {
 public:
  /// `spec.make` is not null. `pacer` is the QP's and outlives this, as `rates` does, in which it takes a free row.
  Congestion(const CcSpec& spec, egress::Pacer& pacer, Qpn qpn, std::span<QpRate> rates);
  ~Congestion();
  Congestion(const Congestion&) = delete;
  Congestion& operator=(const Congestion&) = delete;

  /// The QP may send: responses from RTR on, requests from RTS on, the first with `first_psn`.
  void start(const CcPath& path, Instant now);
  void start_requests(Psn first_psn) { acked_psn_ = first_psn; }

  /// A data packet came with CE. True: a CNP is to be sent.
  bool on_marked(Instant now) {
    mark_to_echo_ = true;
    return spec_.sends_cnps && notifier_.on_marked(now);
  }
  /// True once after marks, if they are to be told by the ACK that covers them.
  bool take_echo() {
    const bool echo = mark_to_echo_ && (needs_ & kCcEcnEcho) != 0;
    mark_to_echo_ = false;
    return echo;
  }

  void on_cnp(Instant now);
  /// A packet of data leaves, of `frame_bytes` without preamble, FCS and gap.
  void on_sent(Instant now, std::uint32_t frame_bytes, Duration catch_up);
  /// After the packets of a burst.
  void end_burst(Instant now);
  /// A request packet left; the next one has `next_psn`.
  void on_request_sent(Instant now, Psn next_psn);
  /// Something was acknowledged, or refused with a NAK: `unacked_psn` is the oldest outstanding one, `next_psn` the
  /// next to be sent. `marked`: the ACK echoes a mark.
  void on_ack(Instant now, Psn unacked_psn, Psn next_psn, bool marked, bool nak);
  void on_loss(Instant now, CcLoss loss, std::uint32_t bytes);
  void on_idle_resume(Instant now);
  void on_deadline(Instant now);

  std::uint32_t needs() const { return needs_; }
  Instant deadline() const { return out_.deadline; }
  std::uint64_t window_bytes() const { return out_.window_bytes; }

 private:
  void make();
  void obey();
  void publish();
  std::uint64_t seq_of(Psn psn) const {
    return acked_seq_ + static_cast<std::uint64_t>(psn.distance_from(acked_psn_)) * mtu_bytes_;
  }

  const CcSpec spec_;
  egress::Pacer& pacer_;
  QpRate* rate_row_ = nullptr;  ///< null: all were taken
  NotificationPoint notifier_;
  CongestionControl* algorithm_ = nullptr;  ///< in storage_
  std::uint32_t needs_ = 0;
  std::uint64_t line_rate_bps_ = 0;
  CcOut out_;
  std::uint32_t burst_wire_bytes_ = 0;
  std::uint32_t mtu_bytes_ = 0;
  std::uint64_t acked_seq_ = 0;
  Psn acked_psn_;  ///< acked_seq_ as a PSN
  Psn next_psn_;
  Psn probe_psn_;                ///< the RTT of the packet before it is being taken
  Instant probe_sent_ = kNever;  ///< kNever: of none
  bool mark_to_echo_ = false;
  alignas(std::max_align_t) std::array<std::byte, CongestionControl::kMaxBytes> storage_;
};

}  // namespace roci
