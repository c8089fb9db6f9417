// The responder: checks and executes requests in PSN order, and answers when asked for a packet.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/qp/current_receive.h"
#include "stack/qp/faults.h"
#include "stack/qp/inbound.h"
#include "stack/qp/path.h"
#include "stack/qp/response_queue.h"

namespace roci {

class Qp;

/// A request that fails any check has touched no memory and moved no cursor, but for a receive WQE in use, which
/// completes in error. Owner: worker.
class Responder {
 public:
  explicit Responder(Qp& qp) : qp_(qp) {}

  /// Control: INIT to RTR.
  void start(Psn expected_psn);
  /// Control: QP to RESET.
  void reset();

  void on_request(const Inbound& in);

  /// The next packet is of a READ response: data, as requests are.
  bool next_is_data() { return !responses_.empty() && !responses_.front().is_atomic; }
  bool has_response() const { return !responses_.empty() || nak_ != Fault::kNone || ack_due_; }
  /// Builds the next response, ACK or NAK in `frame`; returns its size in bytes, or 0 if there is none.
  std::uint32_t next_packet(const Route& route, std::byte* frame);

  Psn expected_psn() const { return expected_psn_; }
  /// The QP is in error: completes a receive WQE in use as flushed, and forgets what was to be answered, unless it is
  /// the NAK that tells the peer.
  void flush();

 private:
  enum class Order : std::uint8_t { kExpected, kDuplicate, kAhead };

  Order check_psn(Psn psn) const;
  Fault check_opcode(const Inbound& in) const;
  Fault check_length(const Inbound& in) const;
  Fault execute(const Inbound& in);
  Fault execute_send(const Inbound& in);
  Fault execute_write(const Inbound& in);
  Fault execute_read(const Inbound& in);
  Fault execute_atomic(const Inbound& in);
  void replay(const Inbound& in);
  void replay_read(const Inbound& in);
  void replay_atomic(const Inbound& in);
  void owe_ack(Psn psn);
  void owe_response(const Response& response);
  void refuse(Fault fault, Psn psn);
  void advance(const Inbound& in, std::uint32_t packets);

  /// Takes a receive WQE for the message that is starting, or gives kReceiverNotReady.
  Fault take_receive();
  void complete_receive(const Inbound* in, WcStatus status);
  std::byte* remote_memory(RKey rkey, std::uint64_t va, std::uint64_t bytes, std::uint32_t access) const;
  Fault queue_read(const Reth& reth, Psn psn, std::uint32_t packets, bool is_replay);

  std::uint8_t credits() const;
  std::uint32_t build_refusal(const FaultInfo& info, const Route& route, std::byte* frame);
  std::uint32_t build_read_response(const Route& route, std::byte* frame);
  std::uint32_t build_atomic_response(const Route& route, std::byte* frame);
  std::uint32_t build_acknowledge(const Route& route, std::byte* frame, Psn psn, std::uint8_t syndrome);

  Qp& qp_;
  Psn expected_psn_;
  std::uint32_t msn_ = 0;  ///< 24 bits
  Opcode previous_ = Opcode::kRcSendOnly;

  // The WRITE being received.
  std::uint64_t write_va_ = 0;
  RKey write_rkey_;
  std::uint32_t write_left_ = 0;  ///< bytes

  CurrentReceive receive_;
  std::uint32_t received_bytes_ = 0;

  // What to answer.
  ResponseQueue responses_;
  Psn last_answered_psn_;  ///< the last PSN of the last READ or atomic, which has a response of its own
  bool ack_due_ = false;
  Psn ack_psn_;               ///< never that of a READ or an atomic
  Fault nak_ = Fault::kNone;  ///< to be sent once the responses before it have left
  Psn nak_psn_;
  bool awaiting_retransmission_ = false;  ///< a NAK for this gap is out: no second one
};

}  // namespace roci
