// The completer: takes acknowledgements and responses, completes send WQEs, and decides on retries.
#pragma once

#include <cstdint>

#include "stack/base/types.h"
#include "stack/qp/inbound.h"
#include "stack/queues/send_queue.h"
#include "stack/wire/aeth.h"

namespace roci {

class Qp;

/// Owner: worker.
class Completer {
 public:
  explicit Completer(Qp& qp) : qp_(qp) {}

  /// Control: RTR to RTS, or a new timeout or retry count.
  void start();

  void on_acknowledge(const Inbound& in);
  void on_read_response(const Inbound& in);
  void on_atomic_response(const Inbound& in);

  /// The requester has sent. `awaited`: it awaited an answer before that; if not, the time for one starts now
  /// (IBTA 9.7.6.1.3: the timer runs from the request that asks for an answer).
  void on_sent(Instant now, bool awaited);
  /// When the local ACK timeout strikes; kNever if nothing is outstanding or timeouts are off.
  Instant next_deadline() const { return deadline_; }
  /// The deadline has come. `peer_stalled`: the peer is alive but stopped, so that no ACK can come yet.
  void on_deadline(Instant now, bool peer_stalled);

  /// Completes the oldest WQEs as far as they are local ones that were executed.
  void complete_local();
  /// Completes the oldest WQE with `status` and puts the QP in error.
  void fail_oldest(WcStatus status);
  /// The QP is in error: the oldest WQE completes as flushed.
  void flush_oldest();

 private:
  /// Completes all WQEs up to `psn`. Stops at a READ or atomic whose response has not come: returns false then.
  bool complete_through(Psn psn);
  /// Frees the slot of the oldest WQE and, if it is signalled or failed, adds its CQE.
  void complete_oldest(WcStatus status);
  void note_progress(Instant now);
  void restart_timer(Instant now);
  void on_implied_nak(Instant now);
  void on_rnr_nak(Psn psn, std::uint8_t timer_code, Instant now);
  void on_sequence_nak(Psn psn, Instant now);
  void on_fatal_nak(NakCode code);
  void on_bad_response();
  /// The WQE that a response is for, all before it complete; null if there is nothing more to do.
  SendWqe* take_response(const Inbound& in);
  bool position_fits(const OpcodeInfo& info, const SendWqe& wqe, Psn psn) const;
  bool use_retry();
  Duration timeout() const;

  Qp& qp_;
  Instant deadline_ = kNever;
  std::uint8_t retries_left_ = 0;
  std::uint8_t rnr_retries_left_ = 0;
  bool rewound_ = false;  ///< went back for a gap since the last progress
  Instant stalled_since_ = kNever;
};

}  // namespace roci
