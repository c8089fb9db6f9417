// The requester of UC and UD: each WQE is complete once its last packet has been built.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/qp/scatter_gather.h"
#include "stack/queues/send_queue.h"
#include "stack/wire/route.h"

namespace roci {

class Qp;

/// Owner: worker.
class UnreliableSender {
 public:
  explicit UnreliableSender(Qp& qp) : qp_(qp) {}

  /// Control: RTR to RTS.
  void start(Psn first_psn);

  /// True if next_packet() would send now.
  bool can_send() const;
  /// UD: where the next datagram goes; only if there is one.
  AddressHandle& next_address() const { return *oldest().ah; }
  Qpn next_target() const { return oldest().remote_qpn; }
  /// Builds the next packet in `frame`; returns its size in bytes, or 0 if there is nothing to send on `route`.
  std::uint32_t next_packet(const Route& route, std::byte* frame);

  /// Completes all WQEs as flushed.
  void flush();
  /// The send queue is about to be emptied (QP to RESET, or destroyed): lets go of address handles.
  void forget();

  /// SQD: true when nothing that was started is incomplete.
  bool is_drained() const { return next_offset_ == 0; }

 private:
  const SendWqe& oldest() const;
  std::uint32_t next_segment(const SendWqe& wqe, const Route& route, std::byte* frame);
  std::uint32_t next_datagram(const SendWqe& wqe, const Route& route, std::byte* frame);
  void complete_oldest(WcStatus status);
  void fail_oldest(WcStatus status);

  Qp& qp_;
  std::uint32_t next_offset_ = 0;  ///< bytes of the oldest WQE's message before the next packet
  Psn next_psn_;
  SgeCursor cursor_;
};

}  // namespace roci
