// The worker: one turn of the crank. Frames in, QPs do their work, frames out.
//
// A turn, top to bottom: receive up to 256 frames (parse, ICRC, find the QP, hand over); take the QPs whose doorbell
// was rung; let due deadlines strike; send from the QPs that have work, as egress orders them; tell the port; deliver
// events. It makes no system call, allocates nothing in the steady state, and is bounded.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/counters.h"
#include "stack/base/types.h"
#include "stack/egress/pfc_sender.h"
#include "stack/egress/scheduler.h"
#include "stack/engine/baton.h"
#include "stack/engine/deadlines.h"
#include "stack/engine/gsi.h"
#include "stack/engine/multicast_groups.h"
#include "stack/engine/port.h"
#include "stack/engine/qp_table.h"
#include "stack/qp/environment.h"
#include "stack/qp/qp.h"
#include "stack/wire/packet.h"

namespace roci {

struct TurnResult {
  std::uint32_t frames_received = 0;
  std::uint32_t frames_sent = 0;
  bool more_to_do = false;      ///< a bound ended the turn, not want of work
  bool waits_for_room = false;  ///< a QP has frames for which the link has no room now
  Instant at{};                 ///< the time that the turn was told
  Instant next_deadline = kNever;

  bool worked() const { return frames_received + frames_sent > 0 || more_to_do; }
};

class Worker {
 public:
  static constexpr std::uint32_t kMaxSentPerTurn = 256;
  /// Well within a requester's window, which is not to be used up before the first ACK leaves.
  static constexpr std::uint32_t kMaxReceivedPerTurn = 64;
  /// After this many frames in turns that left some waiting the receive side is behind.
  static constexpr std::uint32_t kBacklogFrames = 256;
  /// What waited when such turns began has been taken in by then.
  static constexpr std::uint32_t kLongBacklogFrames = 4096;
  static constexpr std::uint32_t kBurst = 32;

  /// `keys` are the device's, `number` is 0 for its first worker; `counters` may be in memory that others read.
  Worker(Port& port, EventSink& events, KeyTable& keys, Counters& counters, std::uint32_t number);

  Baton& baton() { return baton_; }

  // Whoever holds the baton.
  TurnResult turn(Instant now, TurnReason reason);
  /// When a turn is needed even if nothing arrives and nobody posts.
  Instant next_deadline() const {
    return std::min({deadlines_.earliest(), gsi_.next_deadline(), scheduler_.next_deadline(), port_.next_deadline()});
  }
  Port& port() { return port_; }
  QpEnvironment& env() { return env_; }
  QpTable& qps() { return qps_; }
  Gsi& gsi() { return gsi_; }
  void deliver_events();
  MulticastGroups& groups() { return groups_; }
  egress::Scheduler& scheduler() { return scheduler_; }
  /// Before any QP.
  void configure_egress(const egress::Settings& settings);
  /// The QP has changed state or route: looks at it in the next turn.
  void activate(Qp& qp) { scheduler_.schedule(qp, Instant{}, Instant{}); }
  /// The QP is about to change its route or its priority: activate() follows.
  void withdraw(Qp& qp) { scheduler_.remove(qp); }
  /// The QP is about to be destroyed.
  void forget(Qp& qp);

  // Any thread.
  /// The QP has new WQEs.
  void ring(Qp& qp);
  bool has_rung() const { return rung_.load(std::memory_order_seq_cst) != nullptr; }

 private:
  std::uint32_t receive(Instant now);
  bool has_right_icrc(const RxFrame& frame, const PacketView& view) const;
  /// The QP that the frame was for, or null.
  Qp* receive_frame(const RxFrame& frame, Instant now);
  void receive_without_qp(const Inbound& in);
  void answer_doorbells();
  void look_at_port(TurnReason reason);
  void strike_deadlines(Instant now);
  std::uint32_t transmit(Instant now);
  std::uint32_t transmit_ready(Instant now, std::uint32_t most);
  std::uint32_t transmit_cnps(Instant now);
  struct Burst {
    std::uint32_t frames = 0;
    bool has_room = false;  ///< the link had room for some
    bool is_full = false;   ///< as many frames as there was room for
  };
  std::uint32_t transmit_datagrams(Qp& qp, Instant now);
  void wait_for_room(Qp& qp);
  bool may_send(Qp& qp, Instant now);
  Burst transmit_burst(Qp& qp, Instant now);
  /// Whatever has happened to the QP: when it sends next, and when it is to be looked at.
  void attend(Qp& qp, Instant now);
  void count_unparsed(ParseStatus status);
  void on_mac_control(std::span<const std::byte> header, Instant now);
  void count_pauses(Instant now);
  void send_pfc(bool behind, Instant now);

  Baton baton_;
  Port& port_;
  PortAttributes port_seen_;  ///< when events last told of it
  EventSink& events_;
  QpEnvironment env_;
  QpTable qps_;
  MulticastGroups groups_;
  Gsi gsi_;
  egress::Scheduler scheduler_;
  egress::PfcSender pfc_sender_;
  std::uint32_t backlog_ = 0;        ///< frames taken in by turns that left some waiting
  std::optional<PfcFrame> pfc_due_;  ///< the link had no room for it yet
  MacAddress mac_;
  Duration quantum_{};
  std::array<RxFrame, kBurst> received_;  ///< of receive(): not cleared each time
  bool lacks_room_ = false;               ///< at the end of the turn something waited for room in the link
  DeadlineHeap<Qp> deadlines_;
  alignas(64) std::atomic<Qp*> rung_{nullptr};
};

}  // namespace roci
