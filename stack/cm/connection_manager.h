// The protocol of the communication manager (IBTA chapter 12, annex A11): connections made and ended by messages that
// may be lost, doubled, reordered, or cross each other.
//
// It does no I/O and owns no clock: calls, messages and `now` go in; messages, events and the next deadline come out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>

#include "stack/base/counters.h"
#include "stack/base/entropy.h"
#include "stack/base/types.h"
#include "stack/cm/connection.h"
#include "stack/cm/mad_transport.h"
#include "stack/cm/port_table.h"
#include "stack/cm/types.h"
#include "stack/engine/deadlines.h"
#include "stack/wire/mad.h"

namespace roci::cm {

struct ManagerConfig {
  std::uint64_t ca_guid = 0;   ///< tells this port from all others
  std::uint8_t path_mtu = 5;   ///< largest that the port takes, code of ibv_mtu
  std::uint32_t id_block = 0;  ///< top 6 bits of every communication id made here
};

/// Packets of a path live 4.096 us x 2^16 at most, as Linux assumes of RoCE (before 6.10 it assumed 2^18); the ACK
/// timeout, 0.5 s, follows from it.
inline constexpr std::uint8_t kDefaultAckTimeout = 17;

/// Owner: one thread at a time. Calls return an errno value; on error nothing has changed.
class ConnectionManager {
 public:
  ConnectionManager(MadTransport& transport, Entropy& entropy, Counters& counters, const ManagerConfig& config);
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  /// Where events go; null: requests are refused, other events forgotten.
  void set_handler(EventHandler* handler) { handler_ = handler; }

  Connection* create(PortSpace space, void* user);
  /// The user is done with it: says goodbye as the state asks for, raises no more events.
  void destroy(Connection& connection, Instant now);
  /// All of them, because the process ends.
  void destroy_all(Instant now);

  /// EADDRINUSE, EINVAL if it is bound. Port 0 takes a free one.
  int bind(Connection& connection, const Endpoint& local);
  int listen(Connection& connection, Instant now);
  /// The addresses between which the connection will be: `local` stands for a wildcard, too.
  void set_route(Connection& connection, const IpAddress& local, const Endpoint& remote);

  /// As set_route(), with kAddressResolved as soon as somebody has the remote address, or kAddressError.
  int resolve(Connection& connection, const IpAddress& local, const Endpoint& remote, Duration timeout, Instant now);

  /// Sends a REQ to `connection.remote`; `connection.local` is bound. At most 56 bytes of private data.
  int connect(Connection& connection, const ConnectionParameters& own, const PathParameters& path,
              std::span<const std::byte> private_data, Instant now);
  /// Answers a REQ with a REP; at most 196 bytes.
  int accept(Connection& connection, const ConnectionParameters& own, std::span<const std::byte> private_data,
             Instant now);
  /// Answers a REP with an RTU: the active side is ready.
  int establish(Connection& connection);
  /// A packet of the peer has come before its RTU: that says as much.
  int notify_established(Connection& connection);
  /// Answers a REQ, a REP or a SIDR REQ with no; at most 148 bytes (136 to a SIDR REQ).
  int reject(Connection& connection, RejectReason reason, std::span<const std::byte> private_data);
  /// Sends a DREQ, or answers the peer's with a DREP.
  int disconnect(Connection& connection, Instant now);

  /// Sends a SIDR REQ; at most 180 bytes.
  int resolve_service(Connection& connection, std::span<const std::byte> private_data, Instant now);
  /// Answers a SIDR REQ with the QP and its Q_Key; at most 136 bytes.
  int answer_service(Connection& connection, Qpn qpn, std::uint32_t qkey, std::span<const std::byte> private_data);

  /// A message came to QP1.
  void on_mad(const MadPath& path, const Mad& message, Instant now);
  Instant next_deadline() const {
    return std::min({deadlines_.earliest(), next_look_, held_reqs_.empty() ? kNever : held_reqs_.front().until});
  }
  void on_deadline(Instant now);

  std::size_t connection_count() const { return connections_.size(); }

 private:
  /// A REQ for a port on which somebody has just stopped to listen, and may be about to listen again.
  struct HeldReq {
    MadPath path;
    Mad message;
    Instant until;
  };
  struct LeftPort {
    std::uint16_t port;
    Instant at;
  };

  /// A service that has answered.
  struct ReachedService {
    Endpoint remote;
    Instant at;
  };

  // What each message does.
  void on_req(const MadPath& path, const Mad& message, Instant now);
  void on_duplicate_req(Connection& connection, const Mad& message);
  void on_rep(const MadPath& path, const Mad& message, Instant now);
  void on_rtu(Connection& connection);
  void on_mra(Connection& connection, const Mad& message, Instant now);
  void on_rej(const MadPath& path, const Mad& message, Instant now);
  void on_dreq(const MadPath& path, const Mad& message, Instant now);
  void on_drep(Connection& connection, Instant now);
  void on_lap(const MadPath& path, const Mad& message);
  void on_sidr_req(const MadPath& path, const Mad& message, Instant now);
  void on_sidr_rep(const MadPath& path, const Mad& message, Instant now);

  Connection* find(std::uint32_t local_id, const MadPath& path) const;
  template <class Predicate>
  Connection* find_if(Predicate predicate) const;
  Connection* make_passive(Connection& listener, const MadPath& path, const Mad& message);
  bool check_req(const MadPath& path, const Mad& message, Instant now, Connection** listener);
  void note_reached(const Connection& connection, Instant now);
  bool was_left_lately(std::uint64_t service_id, Instant now) const;
  /// True if nobody listens now where somebody did, and may again.
  bool may_listen_again(const Connection& connection, Instant now) const;
  /// True if the REQ waits for somebody to listen again.
  bool hold_req(const MadPath& path, const Mad& message, Instant now);
  void serve_held_reqs(const Connection& listener, Instant now);
  void refuse_held_reqs(Instant now);
  Connection* find_stale(const MadPath& path, const Mad& message) const;

  bool raise(const Event& event);
  void raise(Connection& connection, EventType type, std::uint32_t status = 0);
  /// Sends `message` and, until an answer comes, sends it again.
  void send_reliably(Connection& connection, const Mad& message, Instant now);
  void send(const Connection& connection, const Mad& message) { transport_.send(connection.mad_path, message); }
  void send_mra(const Connection& connection, unsigned message, std::uint8_t service_timeout);
  void send_rej(const MadPath& path, const Mad& about, RejectReason reason, std::uint32_t local_id);
  void send_drep(const Connection& connection, const Mad& dreq);
  void wait_until(Connection& connection, Instant at);
  void stop_timer(Connection& connection);
  void retry(Connection& connection, Instant now);
  void look_for_address(Connection& connection, Instant now);
  void start_looking(Instant now);
  /// Peers may go without a word; where the link knows, their connections end.
  void look_for_lost_peers(Instant now);
  void lose_peer(Connection& connection, Instant now);
  void give_up(Connection& connection, Instant now);
  void enter_timewait(Connection& connection, Instant now);
  void start_dreq(Connection& connection, Instant now);
  void erase(Connection& connection);
  std::uint64_t new_transaction();

  MadTransport& transport_;
  Entropy& entropy_;
  Counters& counters_;
  const ManagerConfig config_;
  EventHandler* handler_ = nullptr;
  PortTable ports_;
  DeadlineHeap<Connection> deadlines_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Connection>> connections_;  ///< by local_id
  std::deque<HeldReq> held_reqs_;
  std::deque<LeftPort> left_ports_;
  std::deque<ReachedService> reached_services_;
  Instant next_look_ = kNever;  ///< for peers that are gone
};

}  // namespace roci::cm
