// A queue pair: its attributes, its queues, and the machines that speak for it on the wire: requester, completer and
// responder for RC, a sender and a receiver for UC and UD.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "stack/base/deadline_hook.h"
#include "stack/base/types.h"
#include "stack/egress/flow.h"
#include "stack/qp/attributes.h"
#include "stack/qp/completer.h"
#include "stack/qp/congestion.h"
#include "stack/qp/environment.h"
#include "stack/qp/inbound.h"
#include "stack/qp/path.h"
#include "stack/qp/requester.h"
#include "stack/qp/responder.h"
#include "stack/qp/unreliable_receiver.h"
#include "stack/qp/unreliable_sender.h"
#include "stack/queues/completion_queue.h"
#include "stack/queues/recv_queue.h"
#include "stack/queues/send_queue.h"

namespace roci {

/// What a QP is created with; never changes.
struct QpIdentity {
  Qpn qpn;
  QpType type = QpType::kRc;
  Pd* pd = nullptr;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
  bool signal_all = false;
  void* user = nullptr;
};

/// Owner: whoever holds the baton of the QP's worker, but for what says "any thread".
class Qp : public egress::Flow, public DeadlineHook {
 public:
  Qp(const QpIdentity& identity, const QpCapacity& capacity, QpEnvironment& env);

  // Any thread.
  Qpn qpn() const { return identity_.qpn; }
  QpType type() const { return identity_.type; }
  Pd* pd() const { return identity_.pd; }
  Cq* send_cq() const { return identity_.send_cq; }
  Cq* recv_cq() const { return identity_.recv_cq; }
  Srq* srq() const { return identity_.srq; }
  void* user() const { return identity_.user; }
  QpState state() const { return state_.load(std::memory_order_relaxed); }
  const QpCapacity& capacity() const { return capacity_; }
  SendQueue& sq() { return sq_; }
  RecvQueue& receive_queue() { return identity_.srq != nullptr ? identity_.srq->queue : rq_; }
  /// To whose keys the elements of a receive belong (IBTA 10.2.9.1): an SRQ has a PD of its own.
  Pd* receive_pd() { return identity_.srq != nullptr ? identity_.srq->pd : identity_.pd; }

  // For the machines.
  const QpAttr& attr() const { return attr_; }
  QpEnvironment& env() { return env_; }
  Counters& counters() { return env_.counters; }
  const WindowPolicy& window() const { return env_.window; }
  /// Packets that may be outstanding.
  std::uint32_t window_packets() const { return window_packets_; }
  /// Null without congestion control.
  Congestion* congestion() const { return congestion_.get(); }
  const Path& path() const { return path_; }
  std::uint32_t mtu() const { return 1u << mtu_shift_; }
  std::uint32_t mtu_shift() const { return mtu_shift_; }
  Requester& requester() { return requester_; }
  const Responder& responder() const { return responder_; }
  /// Local WQEs were executed: completes those that nothing before them keeps from it.
  void complete_local() { completer_.complete_local(); }
  /// The QP fails: state ERR, all WQEs flushed (IBTA 10.3.1.7).
  void enter_error();
  /// A send WQE of UC or UD fails: state SQE, the send WQEs behind it flushed (IBTA 10.3.1.6).
  void enter_send_error();
  /// Adds a CQE of this QP. If the CQ is full the QP is to go to the error state, once what is under way is done.
  void complete(Cq& cq, const Cqe& cqe);
  /// For congestion control: an answer was taken, and a loss noticed.
  void note_answer(const Inbound& in, bool nak);
  void note_loss(Instant now, CcLoss loss);
  /// A receive WQE was taken: the SRQ's limit may have been reached.
  void note_srq_consumed();

  // Worker.
  /// Of the next packets. A UD QP has one only from choose_route() to forget_route(): that of its next datagram.
  Route* route() const { return route_; }
  /// False if there is nothing to send.
  bool choose_route();
  void forget_route() { route_ = nullptr; }
  void on_packet(const Inbound& in);
  /// When next_packet() has something to send: `now` or before, when its pacer allows, or kNever.
  Instant next_send(Instant now);
  /// Builds the next packet in `frame`; returns its size in bytes, or 0.
  std::uint32_t next_packet(Instant now, std::byte* frame);
  /// The packets of a burst have been built.
  void end_burst(Instant now) {
    if (congestion_ != nullptr) congestion_->end_burst(now);
  }
  /// The peer says that what this QP sends meets congestion.
  void on_cnp(const Inbound& in);
  /// Builds the CNP that is owed; returns its size in bytes.
  std::uint32_t build_cnp(std::byte* frame);
  /// The doorbell was rung: new WQEs, which are flushed if the QP is in error.
  void on_doorbell();
  Instant next_deadline() const;
  void on_deadline(Instant now, bool peer_stalled);

  // Control.
  /// `source` is the port's GID at av.sgid_index.
  void set_route(Route* route, const IpAddress& source, const AddressVector& av, Qpn dest_qpn);
  /// The QP is about to be destroyed.
  void forget_sends() {
    if (unreliable_ != nullptr) unreliable_->sender.forget();
  }
  /// Applies attributes that qp_states has approved, and moves to attr.state if kQpStateAttr is set.
  void apply(const QpAttr& attr, std::uint32_t mask);
  QpAttr query() const;

  /// Any thread may ring; see Worker::ring().
  std::atomic<bool> rung{false};
  Qp* next_rung = nullptr;

 private:
  /// What UC and UD have instead of RC's machines.
  struct Unreliable {
    explicit Unreliable(Qp& qp) : sender(qp), receiver(qp) {}
    UnreliableSender sender;
    UnreliableReceiver receiver;
  };

  void on_other_packet(const Inbound& in);
  void count_stranger(const Inbound& in);
  bool is_for_port(const Inbound& in);
  Instant next_unreliable_send(Instant now);
  std::uint32_t next_request(Instant now, std::byte* frame);
  std::uint32_t next_response(Instant now, std::byte* frame);
  void on_marked(Instant now);
  void start_receiving();
  void start_sending();
  void start_congestion();
  void obey_window();
  void move_to(QpState target);
  void reset_machines();
  void flush();
  void complete_flushed_receives();
  void check_failed_wqe();
  void check_drained();
  void check_lost_completion();

  const QpIdentity identity_;
  QpCapacity capacity_;
  QpEnvironment& env_;
  std::atomic<QpState> state_{QpState::kReset};
  std::uint8_t accepts_ = 0;  ///< RC: PacketClass bits that the state lets in
  bool may_request_ = false;  ///< RC: the state lets requests out
  std::uint32_t mtu_shift_ = 10;
  Route* route_ = nullptr;
  bool responder_turn_ = false;  ///< responses and requests alternate
  bool communication_established_ = false;
  bool lost_completion_ = false;  ///< a CQ was full
  bool cnp_due_ = false;          ///< this QP is in env_.cnps
  std::uint32_t window_packets_ = 0;
  std::unique_ptr<Congestion> congestion_;
  Path path_;
  QpAttr attr_;
  SendQueue sq_;
  RecvQueue rq_;
  Requester requester_;
  Completer completer_;
  Responder responder_;
  std::unique_ptr<Unreliable> unreliable_;
};

}  // namespace roci
