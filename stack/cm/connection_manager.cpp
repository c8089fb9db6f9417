// Calls and timers; what messages do is in receive.cpp.
#include "stack/cm/connection_manager.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "stack/cm/messages.h"

namespace roci::cm {
namespace {

constexpr Duration kAddressPeriod = milliseconds(20);
constexpr Duration kLookPeriod = seconds(1);
constexpr std::size_t kMostLeftPorts = 64;
constexpr std::uint8_t kMaxRetries = 15;
/// The peer is told that an answer may take 4.096 us x 2^20. Asking again earlier does no harm, and makes up for a lost
/// message sooner: the first time after 4.096 us x 2^13, then each time after twice as long, up to what the peer was
/// told.
constexpr unsigned kFirstRetryExponent = 13;
constexpr unsigned kLastRetryExponent = 20;

/// How times are told in messages (IBTA 12.7): 4.096 us x 2^exponent.
constexpr Duration encoded_time(unsigned exponent) { return nanoseconds(std::int64_t{4096} << exponent); }

bool fits(std::span<const std::byte> data, PrivateDataRoom room) { return data.size() <= room.bytes; }

}  // namespace

ConnectionManager::ConnectionManager(MadTransport& transport, Entropy& entropy, Counters& counters,
                                     const ManagerConfig& config)
    : transport_(transport), entropy_(entropy), counters_(counters), config_(config), ports_(entropy) {}

ConnectionManager::~ConnectionManager() = default;

Connection* ConnectionManager::create(PortSpace space, void* user) {
  std::uint32_t id = 0;
  do {
    id =
        config_.id_block << kIdBlockShift | (static_cast<std::uint32_t>(entropy_.next()) & ((1u << kIdBlockShift) - 1));
  } while (id == 0 || connections_.contains(id));
  auto made = std::make_unique<Connection>();
  made->port_space = space;
  made->user = user;
  made->local_id = id;
  made->own.starting_psn = Psn(static_cast<std::uint32_t>(entropy_.next()));
  return connections_.emplace(id, std::move(made)).first->second.get();
}

std::uint64_t ConnectionManager::new_transaction() { return entropy_.next(); }

void ConnectionManager::erase(Connection& connection) {
  stop_timer(connection);
  deadlines_.remove(connection);
  ports_.unbind(connection);
  connections_.erase(connection.local_id);
}

void ConnectionManager::destroy(Connection& connection, Instant now) {
  connection.user = nullptr;
  ports_.unbind(connection);
  if (connection.state == State::kListen) {
    left_ports_.push_back({connection.local.port, now});
    if (left_ports_.size() > kMostLeftPorts) left_ports_.pop_front();
  }
  switch (connection.state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kReqReceived:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kRepReceived: {
      const bool gives_up = connection.state == State::kReqSent || connection.state == State::kMraReqReceived;
      reject(connection, gives_up ? RejectReason::kTimeout : RejectReason::kConsumer, {});
      break;
    }
    case State::kSidrReqReceived:
      reject(connection, RejectReason::kConsumer, {});
      break;
    case State::kEstablished:
      start_dreq(connection, now);
      return;
    case State::kDreqReceived:
      disconnect(connection, now);
      return;
    case State::kDreqSent:
    case State::kTimewait:
      return;
    default:
      break;
  }
  erase(connection);
}

void ConnectionManager::destroy_all(Instant now) {
  std::vector<Connection*> all;
  for (const auto& [id, connection] : connections_)
    if (connection->user != nullptr) all.push_back(connection.get());
  for (Connection* connection : all) destroy(*connection, now);
}

int ConnectionManager::bind(Connection& connection, const Endpoint& local) {
  if (connection.state != State::kIdle || connection.is_bound) return EINVAL;
  const Endpoint before = connection.local;
  connection.local = local;
  const int error = ports_.bind(connection);
  if (error != 0) connection.local = before;
  return error;
}

int ConnectionManager::listen(Connection& connection, Instant now) {
  if (connection.state != State::kIdle || !connection.is_bound) return EINVAL;
  if (!ports_.may_listen(connection)) return EADDRINUSE;
  connection.state = State::kListen;
  ++counters_.cm_listens;
  serve_held_reqs(connection, now);
  return 0;
}

void ConnectionManager::set_route(Connection& connection, const IpAddress& local, const Endpoint& remote) {
  connection.local.address = local;
  connection.remote = remote;
}

int ConnectionManager::resolve(Connection& connection, const IpAddress& local, const Endpoint& remote, Duration timeout,
                               Instant now) {
  if (connection.state != State::kIdle || !connection.is_bound) return EINVAL;
  set_route(connection, local, remote);
  connection.mad_path = {.local = local, .remote = remote.address};
  connection.resolve_until = now + timeout;
  connection.state = State::kResolving;
  look_for_address(connection, now);
  return 0;
}

void ConnectionManager::look_for_address(Connection& connection, Instant now) {
  // A group is always there.
  const bool found = connection.remote.address.is_multicast() || transport_.incarnation(connection.mad_path) != 0;
  if (!found && now < connection.resolve_until) return wait_until(connection, now + kAddressPeriod);
  stop_timer(connection);
  connection.state = State::kIdle;
  raise(connection, found ? EventType::kAddressResolved : EventType::kAddressError,
        found ? 0 : std::uint32_t{EHOSTUNREACH});
}

void ConnectionManager::start_looking(Instant now) {
  if (next_look_ == kNever) next_look_ = now + kLookPeriod;
}

void ConnectionManager::look_for_lost_peers(Instant now) {
  if (next_look_ > now) return;
  next_look_ = connections_.empty() ? kNever : now + kLookPeriod;
  std::vector<Connection*> lost;
  MadPath looked_at;
  std::uint64_t incarnation = 0;
  for (const auto& [id, connection] : connections_) {
    if (connection->peer_incarnation == 0) continue;
    const MadPath& path = connection->mad_path;
    // Most have the same peer.
    const bool same =
        path.remote == looked_at.remote && path.remote_id >> kIdBlockShift == looked_at.remote_id >> kIdBlockShift;
    if (!same) incarnation = transport_.incarnation(path);
    looked_at = path;
    if (incarnation != connection->peer_incarnation) lost.push_back(connection.get());
  }
  for (Connection* connection : lost) lose_peer(*connection, now);
}

void ConnectionManager::lose_peer(Connection& connection, Instant now) {
  connection.peer_incarnation = 0;
  switch (connection.state) {
    case State::kEstablished:
    case State::kDreqSent:
      enter_timewait(connection, now);
      return raise(connection, EventType::kDisconnected);
    case State::kReqReceived:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kRepReceived:
      stop_timer(connection);
      connection.state = State::kIdle;
      ++counters_.cm_unreachable;
      return raise(connection, EventType::kUnreachable, ETIMEDOUT);
    default:
      return;
  }
}

namespace {

/// The PSN is the connection's own from its start: a QP may be made ready before the parameters are known.
void set_own(Connection& connection, const ConnectionParameters& own) {
  const Psn starting_psn = connection.own.starting_psn;
  connection.own = own;
  connection.own.starting_psn = starting_psn;
}

}  // namespace

int ConnectionManager::connect(Connection& connection, const ConnectionParameters& own, const PathParameters& path,
                               std::span<const std::byte> data, Instant now) {
  if (connection.state != State::kIdle || !connection.is_bound) return EINVAL;
  if (!fits(data, behind_ip_header(cm_layout::req::kPrivateData))) return EINVAL;
  connection.is_active = true;
  set_own(connection, own);
  connection.path = path;
  connection.transaction_id = new_transaction();
  connection.service_id = ip_service_id(static_cast<std::uint16_t>(connection.port_space), connection.remote.port);
  connection.mad_path = {.local = connection.local.address, .remote = connection.remote.address};
  start_looking(now);
  connection.asked_at = now;
  connection.state = State::kReqSent;
  send_reliably(connection, make_req(connection, config_.ca_guid, data), now);
  return 0;
}

int ConnectionManager::accept(Connection& connection, const ConnectionParameters& own, std::span<const std::byte> data,
                              Instant now) {
  if (connection.state != State::kReqReceived) return EINVAL;
  if (!fits(data, cm_layout::rep::kPrivateData)) return EINVAL;
  set_own(connection, own);
  connection.state = State::kRepSent;
  send_reliably(connection, make_rep(connection, config_.ca_guid, data), now);
  return 0;
}

int ConnectionManager::establish(Connection& connection) {
  if (connection.state != State::kRepReceived) return EINVAL;
  connection.state = State::kEstablished;
  ++counters_.cm_connections;
  connection.sent = make_rtu(connection);
  send(connection, connection.sent);
  return 0;
}

int ConnectionManager::notify_established(Connection& connection) {
  if (connection.state == State::kEstablished) return EISCONN;
  if (connection.state != State::kRepSent && connection.state != State::kMraRepReceived) return EINVAL;
  stop_timer(connection);
  connection.state = State::kEstablished;
  ++counters_.cm_connections;
  raise(connection, EventType::kEstablished);
  return 0;
}

int ConnectionManager::reject(Connection& connection, RejectReason reason, std::span<const std::byte> data) {
  AboutMessage about = AboutMessage::kOther;
  switch (connection.state) {
    case State::kSidrReqReceived:
      if (!fits(data, cm_layout::sidr_rep::kPrivateData)) return EINVAL;
      connection.state = State::kSidrReplied;
      connection.sent = make_sidr_rep(connection, SidrStatus::kRejected, data);
      send(connection, connection.sent);
      return 0;
    case State::kReqReceived:
      about = AboutMessage::kReq;
      break;
    case State::kRepReceived:
      about = AboutMessage::kRep;
      break;
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kRepSent:
    case State::kMraRepReceived:
      break;
    default:
      return EINVAL;
  }
  if (!fits(data, cm_layout::rej::kPrivateData)) return EINVAL;
  Mad message = make_rej(connection.transaction_id, connection.local_id, connection.remote_id, about, reason);
  put_private_data(message, cm_layout::rej::kPrivateData, data);
  if (reason == RejectReason::kTimeout) {
    // Tells the peer whose REQ it is, since its own id is not known (IBTA 12.6.7.2).
    constexpr std::uint32_t kGuidBytes = 8;
    message.set(cm_layout::rej::kInfoBytes, kGuidBytes);
    message.set64(cm_layout::rej::kInfo, config_.ca_guid);
  }
  ++counters_.cm_rejects_sent;
  stop_timer(connection);
  connection.state = State::kIdle;
  connection.sent = message;
  send(connection, message);
  return 0;
}

int ConnectionManager::disconnect(Connection& connection, Instant now) {
  switch (connection.state) {
    case State::kEstablished:
      start_dreq(connection, now);
      return 0;
    case State::kDreqReceived:
      connection.sent = make_drep(connection.sent);
      send(connection, connection.sent);
      enter_timewait(connection, now);
      return 0;
    case State::kRepSent:
    case State::kMraRepReceived:
      // The RTU may be lost, or late: there is a connection to end.
      start_dreq(connection, now);
      return 0;
    default:
      return EINVAL;
  }
}

void ConnectionManager::start_dreq(Connection& connection, Instant now) {
  connection.transaction_id = new_transaction();
  connection.state = State::kDreqSent;
  send_reliably(connection, make_dreq(connection), now);
}

int ConnectionManager::resolve_service(Connection& connection, std::span<const std::byte> data, Instant now) {
  if (connection.state != State::kIdle || !connection.is_bound) return EINVAL;
  if (!fits(data, behind_ip_header(cm_layout::sidr_req::kPrivateData))) return EINVAL;
  connection.is_active = true;
  connection.transaction_id = new_transaction();
  connection.service_id = ip_service_id(static_cast<std::uint16_t>(connection.port_space), connection.remote.port);
  connection.mad_path = {.local = connection.local.address, .remote = connection.remote.address};
  connection.asked_at = now;
  connection.state = State::kSidrReqSent;
  send_reliably(connection, make_sidr_req(connection, data), now);
  return 0;
}

int ConnectionManager::answer_service(Connection& connection, Qpn qpn, std::uint32_t qkey,
                                      std::span<const std::byte> data) {
  if (connection.state != State::kSidrReqReceived) return EINVAL;
  if (!fits(data, cm_layout::sidr_rep::kPrivateData)) return EINVAL;
  connection.own.qpn = qpn;
  connection.own.qkey = qkey;
  connection.state = State::kSidrReplied;
  connection.sent = make_sidr_rep(connection, SidrStatus::kSuccess, data);
  send(connection, connection.sent);
  return 0;
}

bool ConnectionManager::raise(const Event& event) {
  return handler_ != nullptr && event.connection->user != nullptr && handler_->on_cm_event(event);
}

void ConnectionManager::raise(Connection& connection, EventType type, std::uint32_t status) {
  raise(Event{.type = type, .connection = &connection, .status = status});
}

void ConnectionManager::wait_until(Connection& connection, Instant at) {
  connection.deadline = at;
  deadlines_.arm(connection, at);
}

void ConnectionManager::stop_timer(Connection& connection) { connection.deadline = kNever; }

void ConnectionManager::send_reliably(Connection& connection, const Mad& message, Instant now) {
  connection.sent = message;
  connection.retries_done = 0;
  send(connection, message);
  wait_until(connection, now + encoded_time(kFirstRetryExponent));
}

void ConnectionManager::retry(Connection& connection, Instant now) {
  ++connection.retries_done;
  ++counters_.cm_retries;
  send(connection, connection.sent);
  wait_until(connection,
             now + encoded_time(std::min(kFirstRetryExponent + connection.retries_done, kLastRetryExponent)));
}

void ConnectionManager::enter_timewait(Connection& connection, Instant now) {
  connection.state = State::kTimewait;
  ports_.unbind(connection);
  // As long as packets of the connection may still be under way (IBTA 12.9.8.4).
  wait_until(connection, now + encoded_time(std::max<unsigned>(connection.path.ack_timeout, 1) - 1));
}

void ConnectionManager::on_deadline(Instant now) {
  look_for_lost_peers(now);
  refuse_held_reqs(now);
  while (Connection* connection = deadlines_.take_due(now)) {
    if (connection->deadline > now) {
      if (connection->deadline != kNever) deadlines_.arm(*connection, connection->deadline);
      continue;
    }
    if (connection->state == State::kTimewait) {
      connection->state = State::kIdle;
      stop_timer(*connection);
      raise(*connection, EventType::kTimewaitExit);
      if (connection->user == nullptr) erase(*connection);
    } else if (connection->state == State::kResolving) {
      look_for_address(*connection, now);
    } else if (connection->retries_done < kMaxRetries) {
      retry(*connection, now);
    } else {
      give_up(*connection, now);
    }
  }
}

/// The peer does not answer.
void ConnectionManager::give_up(Connection& connection, Instant now) {
  stop_timer(connection);
  if (connection.state == State::kDreqSent) {
    enter_timewait(connection, now);
    return raise(connection, EventType::kDisconnected, ETIMEDOUT);
  }
  if (connection.state != State::kSidrReqSent) reject(connection, RejectReason::kTimeout, {});
  connection.state = State::kIdle;
  ++counters_.cm_unreachable;
  raise(connection, EventType::kUnreachable, ETIMEDOUT);
}

}  // namespace roci::cm
