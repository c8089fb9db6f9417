// The responder of UC and UD: places what comes in order and fits, and drops the rest in silence.
#pragma once

#include <cstdint>

#include "stack/base/types.h"
#include "stack/qp/current_receive.h"
#include "stack/qp/faults.h"
#include "stack/qp/inbound.h"
#include "stack/wire/opcodes.h"

namespace roci {

class Qp;

/// Owner: worker.
class UnreliableReceiver {
 public:
  explicit UnreliableReceiver(Qp& qp) : qp_(qp) {}

  /// Control: INIT to RTR.
  void start(Psn expected_psn);
  /// Control: QP to RESET.
  void reset();

  /// UC, from the QP's peer.
  void on_request(const Inbound& in);
  /// UD, to an address of the port's or to a multicast group of the QP's.
  void on_datagram(const Inbound& in);

  /// The QP is in error: completes a receive WQE in use as flushed.
  void flush();

 private:
  Fault execute(const Inbound& in);
  Fault execute_send(const Inbound& in);
  Fault execute_write(const Inbound& in);
  Fault take_receive();
  Fault place_datagram(const Inbound& in);
  bool is_in_sequence(const Inbound& in);
  void drop_message();
  void refuse(Fault fault);
  void complete_receive(const Inbound& in);
  void fail_receive(WcStatus status);

  Qp& qp_;
  CurrentReceive receive_;
  std::uint32_t received_bytes_ = 0;

  // UC.
  Psn expected_psn_;
  Opcode previous_ = Opcode::kUcSendOnly;
  std::uint64_t write_va_ = 0;
  RKey write_rkey_;
  std::uint32_t write_left_ = 0;  ///< bytes
};

}  // namespace roci
