// QP1 of a port, the general services interface: where management datagrams leave and arrive (IBTA 3.9.2, 13.5).
//
// Rare and small: allocation is allowed here, system calls are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "stack/base/counters.h"
#include "stack/base/types.h"
#include "stack/engine/port.h"
#include "stack/qp/inbound.h"
#include "stack/qp/path.h"
#include "stack/wire/mad.h"

namespace roci {

/// Who is behind QP1. Owner: whoever holds the baton.
class MadReceiver {
 public:
  virtual ~MadReceiver() = default;
  virtual void on_mad(const IpAddress& local, const IpAddress& remote, const Mad& message, Instant now) = 0;
  virtual Instant next_deadline() const = 0;
  virtual void on_deadline(Instant now) = 0;
};

/// Owner: whoever holds the baton.
class Gsi {
 public:
  Gsi(Port& port, Counters& counters) : port_(port), counters_(counters) {}
  ~Gsi();
  Gsi(const Gsi&) = delete;
  Gsi& operator=(const Gsi&) = delete;

  void set_receiver(MadReceiver* receiver) { receiver_ = receiver; }

  /// Queues `message`; the next turn sends it. `remote_qpn_block` are the top 6 bits of the QPNs of the process that it
  /// is for, where several share an address.
  void send(const IpAddress& local, const IpAddress& remote, std::uint32_t remote_qpn_block, const Mad& message);
  /// Sends a message that came here, and is for another process of this host, on to the next of them; its sender stays
  /// who it was. False if this is the last.
  bool pass_on(const IpAddress& local, const IpAddress& remote, const Mad& message);
  /// As Port::incarnation().
  std::uint64_t incarnation(const IpAddress& remote, std::uint32_t remote_qpn_block);
  /// A packet came whose destination is QPN 1.
  void on_packet(const Inbound& in);
  /// Sends what is queued, as far as the link has room. Returns the frames sent.
  std::uint32_t transmit();
  bool has_queued() const { return !queue_.empty(); }

  Instant next_deadline() const { return receiver_ == nullptr ? kNever : receiver_->next_deadline(); }
  void on_deadline(Instant now) {
    if (receiver_ != nullptr) receiver_->on_deadline(now);
  }

 private:
  /// A way to a peer, kept for the next message to it.
  struct Way {
    IpAddress local;
    IpAddress remote;
    std::uint32_t qpn_block;
    Route* route;
    Path path;
  };
  struct Queued {
    Way* way;
    Mad message;
  };

  Way* find_way(const IpAddress& local, const IpAddress& remote, std::uint32_t qpn_block);
  void forget_idle_way();
  std::uint32_t build(const Queued& queued, std::byte* frame);

  Port& port_;
  Counters& counters_;
  MadReceiver* receiver_ = nullptr;
  std::vector<std::unique_ptr<Way>> ways_;  ///< oldest first
  std::deque<Queued> queue_;
  Psn psn_;
};

}  // namespace roci
