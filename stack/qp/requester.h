// The requester: turns send WQEs into request packets, within a window, and goes back N when told to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/qp/path.h"
#include "stack/qp/scatter_gather.h"
#include "stack/qp/send_credits.h"
#include "stack/queues/send_queue.h"

namespace roci {

class Qp;

/// The send queue seen from the wire, oldest to newest:
///
///     head ........ next ........ started ........ tail
///     |<- sent, unacknowledged ->|<- to be sent again ->|<- not started ->|
///
/// and in PSNs: unacked_psn <= next_psn <= end_psn. After a rewind, next < started until all is sent again.
/// Local WQEs (bind, invalidate) have no PSN and are executed when they are started: once, after all before them were
/// sent, and before any after them is.
/// Owner: worker.
class Requester {
 public:
  explicit Requester(Qp& qp) : qp_(qp) {}

  /// Control: RTR to RTS.
  void start(Psn first_psn);
  /// Control: QP to RESET.
  void reset();

  /// True if next_packet() would send now.
  bool can_send(Instant now);
  /// Builds the next request in `frame`; returns its size in bytes, or 0 if there is nothing to send now.
  std::uint32_t next_packet(Instant now, const Route& route, std::byte* frame);

  SendCredits& credits() { return credits_; }

  Psn unacked_psn() const { return unacked_psn_; }
  Psn end_psn() const { return end_psn_; }
  Psn next_psn() const { return next_psn_; }
  /// Since the QP was made.
  std::uint64_t retransmitted_packets() const { return retransmitted_packets_; }
  /// Where the latest READ request began that did not begin with its WQE.
  Psn read_resumed_at() const { return read_resumed_at_; }
  /// True if an answer was asked for, by an AckReq bit or a READ or atomic, that has not come. While it is false there
  /// is more to send, so that one will be.
  bool awaits_answer() const { return !last_ack_request_.before(unacked_psn_) && last_ack_request_.before(next_psn_); }
  bool has_outstanding() const { return unacked_psn_ != end_psn_; }
  /// True if `psn` is that of a packet sent and not acknowledged.
  bool is_outstanding(Psn psn) const {
    const auto distance = psn.distance_from(unacked_psn_);
    return distance >= 0 && distance < end_psn_.distance_from(unacked_psn_);
  }

  /// The oldest WQE that was started, or null.
  SendWqe* oldest();
  /// True if the oldest WQE is a local one that was executed: nothing keeps it from completing.
  bool has_executed_oldest() { return executed_ > 0 && oldest()->is_local(); }
  /// As has_executed_oldest(); the caller completes it.
  bool take_executed_oldest() {
    const bool has = has_executed_oldest();
    if (has) --executed_;
    return has;
  }
  /// All packets before `psn` have arrived; the WQEs before the oldest are complete.
  void advance_unacked(Psn psn);
  /// The oldest WQE is complete: frees its slot.
  void pop_oldest();
  /// The oldest WQE has failed or is flushed, and so will be all others.
  void drop_oldest();
  /// Go-back-N: sends again from `psn`, which is outstanding.
  void rewind_to(Psn psn);
  /// Sends nothing before `until` (RNR NAK).
  void pause_until(Instant until) { paused_until_ = until; }
  Instant paused_until() const { return paused_until_; }

  /// A WQE could not be sent for a fault of its own. It completes with this once all before it have.
  bool has_failed() const { return failed_ != WcStatus::kSuccess; }
  /// The failed WQE's status if all WQEs before it are complete, else kSuccess.
  WcStatus failure_due() const;

  /// SQD: true when nothing that was started is incomplete.
  bool is_drained() const;

 private:
  bool may_start(const SendWqe& wqe) const;
  bool has_credit(const SendWqe& wqe) const;
  void start_wqe(SendWqe& wqe);
  bool execute_local(SendWqe& wqe);
  /// As next_packet(), where the next WQE is a local one: executes all such that follow each other.
  std::uint32_t next_after_local(Instant now, const Route& route, std::byte* frame);
  void seek(Psn psn);
  bool wants_ack(Psn psn, bool is_last) const;
  std::uint32_t build_request(const SendWqe& wqe, const Route& route, std::byte* frame);
  std::uint32_t build_read(const SendWqe& wqe, const Route& route, std::byte* frame);
  std::uint32_t build_atomic(const SendWqe& wqe, const Route& route, std::byte* frame);
  void finish_wqe();
  void fail(WcStatus status);

  Qp& qp_;
  std::uint32_t next_index_ = 0;   ///< WQE of the next packet
  std::uint32_t started_end_ = 0;  ///< one past the newest WQE that has PSNs
  std::uint32_t next_offset_ = 0;  ///< bytes of that WQE's message before the next packet
  std::uint32_t ssn_base_ = 0;     ///< the SSN of a WQE is its index less this
  Psn next_psn_;
  Psn unacked_psn_;
  Psn end_psn_;
  Psn last_ack_request_;
  Psn read_resumed_at_;
  SendCredits credits_;
  SgeCursor cursor_;
  std::uint64_t retransmitted_packets_ = 0;
  std::uint32_t reads_sent_ = 0;  ///< READs and atomics in [head, next)
  std::uint32_t executed_ = 0;    ///< local WQEs executed and not complete
  Instant paused_until_{};
  WcStatus failed_ = WcStatus::kSuccess;
  std::uint32_t failed_index_ = 0;
};

}  // namespace roci
