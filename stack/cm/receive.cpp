// What each message of the communication manager does in each state.
#include <algorithm>
#include <cerrno>

#include "stack/cm/connection_manager.h"
#include "stack/cm/messages.h"

namespace roci::cm {
namespace {

namespace layout = cm_layout;

/// A program may take 4.096 us x 2^24 (69 s) to answer a REQ, as Linux asks for.
constexpr std::uint8_t kReqServiceTimeout = 24;
/// From a REP to the RTU is but a few calls; the peer asks again after 4.096 us x 2^19 (2.1 s).
constexpr std::uint8_t kRepServiceTimeout = 19;

/// For so long after a program has stopped to listen, a REQ waits for it to begin again.
constexpr Duration kRelisten = milliseconds(500);
constexpr std::size_t kMostHeldReqs = 64;
/// And for so long such a program's clients ask again, if its side refuses them.
constexpr Duration kAskAgain = seconds(2);
constexpr Duration kReachedLately = seconds(20);
constexpr std::size_t kMostReachedServices = 64;

constexpr PrivateDataRoom kReqConsumerData = behind_ip_header(layout::req::kPrivateData);
constexpr PrivateDataRoom kSidrConsumerData = behind_ip_header(layout::sidr_req::kPrivateData);

Endpoint source_of(const IpCmHeader& header) { return {header.source_address(), header.source_port}; }

bool good_header(const IpCmHeader& header) {
  return header.version == 0 && (header.ip_version == 4 || header.ip_version == 6);
}

PortSpace port_space_of(std::uint64_t service_id) { return static_cast<PortSpace>(service_id >> 16 & 0xffff); }
std::uint16_t port_of(std::uint64_t service_id) { return static_cast<std::uint16_t>(service_id); }

}  // namespace

void ConnectionManager::on_mad(const MadPath& path, const Mad& message, Instant now) {
  if (!is_cm_message(message)) return;
  const auto connection = [&] { return find(message.get(layout::kRemoteId), path); };
  switch (cm_attribute(message)) {
    case CmAttribute::kReq:
      return on_req(path, message, now);
    case CmAttribute::kRep:
      return on_rep(path, message, now);
    case CmAttribute::kRtu:
      if (Connection* found = connection()) on_rtu(*found);
      return;
    case CmAttribute::kMra:
      if (Connection* found = connection()) on_mra(*found, message, now);
      return;
    case CmAttribute::kRej:
      return on_rej(path, message, now);
    case CmAttribute::kDreq:
      return on_dreq(path, message, now);
    case CmAttribute::kDrep:
      if (Connection* found = connection()) on_drep(*found, now);
      return;
    case CmAttribute::kLap:
      return on_lap(path, message);
    case CmAttribute::kSidrReq:
      return on_sidr_req(path, message, now);
    case CmAttribute::kSidrRep:
      return on_sidr_rep(path, message, now);
    case CmAttribute::kApr:
      return;  // no LAP is ever sent
  }
}

/// Only the peer speaks for a connection.
Connection* ConnectionManager::find(std::uint32_t local_id, const MadPath& path) const {
  const auto found = connections_.find(local_id);
  if (found == connections_.end() || found->second->mad_path.remote != path.remote) return nullptr;
  return found->second.get();
}

template <class Predicate>
Connection* ConnectionManager::find_if(Predicate predicate) const {
  const auto found =
      std::find_if(connections_.begin(), connections_.end(), [&](const auto& row) { return predicate(*row.second); });
  return found == connections_.end() ? nullptr : found->second.get();
}

void ConnectionManager::send_rej(const MadPath& path, const Mad& about, RejectReason reason, std::uint32_t local_id) {
  const AboutMessage message = cm_attribute(about) == CmAttribute::kReq   ? AboutMessage::kReq
                               : cm_attribute(about) == CmAttribute::kRep ? AboutMessage::kRep
                                                                          : AboutMessage::kOther;
  const std::uint32_t remote_id = about.get(layout::kLocalId);
  ++counters_.cm_rejects_sent;
  MadPath back = path;
  back.remote_id = remote_id;
  transport_.send(back, make_rej(about.get64(mad::kTransactionId), local_id, remote_id, message, reason));
}

/// A connection of the peer's QP that it must have forgotten, since it uses the QP anew (IBTA 12.9.8.3.1).
Connection* ConnectionManager::find_stale(const MadPath& path, const Mad& message) const {
  const std::uint64_t guid = message.get64(layout::req::kLocalCaGuid);
  const Qpn qpn{message.get(layout::req::kLocalQpn)};
  return find_if([&](const Connection& other) {
    if (other.peer.qpn != qpn || other.remote_guid != guid || other.mad_path.remote != path.remote) return false;
    return other.state == State::kRepSent || other.state == State::kMraRepReceived ||
           other.state == State::kEstablished || other.state == State::kDreqSent ||
           other.state == State::kDreqReceived || other.state == State::kTimewait;
  });
}

/// A program that takes one connection at a time stops to listen in between; its clients may be faster than it. The
/// next may be of another port space: a datagram service, say.
bool ConnectionManager::was_left_lately(std::uint64_t service_id, Instant now) const {
  return std::any_of(left_ports_.begin(), left_ports_.end(), [&](const LeftPort& left) {
    return left.port == port_of(service_id) && now - left.at < kRelisten;
  });
}

bool ConnectionManager::hold_req(const MadPath& path, const Mad& message, Instant now) {
  if (!was_left_lately(message.get64(layout::req::kServiceId), now)) return false;
  const auto is_same = [&](const HeldReq& held) { return held.message == message && held.path.remote == path.remote; };
  if (std::any_of(held_reqs_.begin(), held_reqs_.end(), is_same)) return true;
  if (held_reqs_.size() == kMostHeldReqs) return false;
  held_reqs_.push_back({path, message, now + kRelisten});
  return true;
}

void ConnectionManager::serve_held_reqs(const Connection& listener, Instant now) {
  std::deque<HeldReq> held;
  for (HeldReq& req : held_reqs_) {
    const std::uint64_t service_id = req.message.get64(layout::req::kServiceId);
    if (port_space_of(service_id) == listener.port_space && port_of(service_id) == listener.local.port)
      held.push_back(req);
  }
  for (const HeldReq& req : held) {
    std::erase_if(held_reqs_, [&](const HeldReq& other) { return other.message == req.message; });
    on_req(req.path, req.message, now);
  }
}

void ConnectionManager::refuse_held_reqs(Instant now) {
  while (!held_reqs_.empty() && held_reqs_.front().until <= now) {
    send_rej(held_reqs_.front().path, held_reqs_.front().message, RejectReason::kInvalidServiceId, 0);
    held_reqs_.pop_front();
  }
}

/// Refuses what cannot become a connection, and finds who listens.
bool ConnectionManager::check_req(const MadPath& path, const Mad& message, Instant now, Connection** listener) {
  namespace req = layout::req;
  const auto refuse = [&](RejectReason reason) {
    send_rej(path, message, reason, 0);
    return false;
  };
  const std::uint64_t service_id = message.get64(req::kServiceId);
  const auto header = IpCmHeader::read(private_data(message, req::kPrivateData).data());
  if (!is_ip_service_id(service_id) || !good_header(header)) return refuse(RejectReason::kInvalidServiceId);
  const auto transport = static_cast<TransportService>(message.get(req::kTransportService));
  if (transport != TransportService::kRc && transport != TransportService::kUc)
    return refuse(RejectReason::kInvalidTransportService);
  *listener = ports_.find_listener(port_space_of(service_id), {header.destination_address(), port_of(service_id)});
  if (*listener == nullptr && transport_.pass_on(path, message)) return false;
  if (*listener == nullptr) return !hold_req(path, message, now) && refuse(RejectReason::kInvalidServiceId);
  if (message.gid(req::kPrimaryRemoteGid) != path.local || message.gid(req::kPrimaryLocalGid) != path.remote)
    return refuse(RejectReason::kInvalidPrimaryGid);
  if (const std::uint32_t mtu = message.get(req::kPathMtu); mtu < 1 || mtu > config_.path_mtu)
    return refuse(RejectReason::kInvalidPathMtu);
  return true;
}

void ConnectionManager::on_req(const MadPath& path, const Mad& message, Instant now) {
  const std::uint32_t remote_id = message.get(layout::kLocalId);
  const std::uint64_t guid = message.get64(layout::req::kLocalCaGuid);
  Connection* known = find_if([&](const Connection& other) {
    return !other.is_active && other.remote_id == remote_id && other.remote_guid == guid &&
           other.mad_path.remote == path.remote && other.state != State::kIdle && other.state != State::kSidrReplied &&
           other.state != State::kSidrReqReceived;
  });
  if (known != nullptr) return on_duplicate_req(*known, message);
  if (Connection* stale = find_stale(path, message); stale != nullptr) {
    send_rej(path, message, RejectReason::kStaleConnection, 0);
    if (stale->state == State::kEstablished) start_dreq(*stale, now);
    return;
  }
  Connection* listener = nullptr;
  if (!check_req(path, message, now, &listener)) return;
  Connection& made = *make_passive(*listener, path, message);
  start_looking(now);
  const Event event{.type = EventType::kRequest,
                    .connection = &made,
                    .listener = listener,
                    .peer = made.peer,
                    .private_data = private_data(message, kReqConsumerData)};
  if (handler_ != nullptr && handler_->on_cm_event(event)) return;
  reject(made, RejectReason::kConsumer, {});
  erase(made);
}

Connection* ConnectionManager::make_passive(Connection& listener, const MadPath& path, const Mad& message) {
  namespace req = layout::req;
  Connection* made = create(listener.port_space, nullptr);
  const auto header = IpCmHeader::read(private_data(message, req::kPrivateData).data());
  made->state = State::kReqReceived;
  made->local = {header.destination_address(), listener.local.port};
  made->remote = source_of(header);
  made->remote_id = message.get(layout::kLocalId);
  made->remote_guid = message.get64(req::kLocalCaGuid);
  made->transaction_id = message.get64(mad::kTransactionId);
  made->service_id = message.get64(req::kServiceId);
  made->mad_path = {.local = path.local, .remote = path.remote, .remote_id = made->remote_id};
  made->peer_incarnation = transport_.incarnation(made->mad_path);
  made->peer = parameters_of_req(message);
  // Until the program says otherwise, this side does what the peer asks for.
  made->own.responder_resources = made->peer.responder_resources;
  made->own.initiator_depth = made->peer.initiator_depth;
  made->path = {
      .path_mtu = static_cast<std::uint8_t>(message.get(req::kPathMtu)),
      .traffic_class = static_cast<std::uint8_t>(message.get(req::kPrimaryTrafficClass)),
      .hop_limit = static_cast<std::uint8_t>(message.get(req::kPrimaryHopLimit)),
      .ack_timeout = static_cast<std::uint8_t>(message.get(req::kPrimaryAckTimeout)),
      .flow_label = message.get(req::kPrimaryFlowLabel),
      .is_unreliable = message.get(req::kTransportService) == static_cast<std::uint32_t>(TransportService::kUc)};
  return made;
}

void ConnectionManager::on_duplicate_req(Connection& connection, const Mad& message) {
  ++counters_.cm_duplicates;
  switch (connection.state) {
    case State::kReqReceived:
      return send(connection, make_mra(connection, AboutMessage::kReq, kReqServiceTimeout));
    case State::kRepSent:
    case State::kMraRepReceived:
      return send(connection, connection.sent);
    case State::kTimewait:
      return send_rej(connection.mad_path, message, RejectReason::kStaleConnection, connection.local_id);
    default:
      return;  // an old one, late
  }
}

void ConnectionManager::on_rep(const MadPath& path, const Mad& message, Instant now) {
  Connection* connection = find(message.get(layout::kRemoteId), path);
  if (connection == nullptr || !connection->is_active) {
    return send_rej(path, message, RejectReason::kInvalidCommunicationId, message.get(layout::kRemoteId));
  }
  switch (connection->state) {
    case State::kReqSent:
    case State::kMraReqReceived:
      break;
    case State::kRepReceived:
    case State::kEstablished:
      // Of another connection, which an old copy of the REQ has made.
      if (connection->remote_id != message.get(layout::kLocalId))
        return send_rej(path, message, RejectReason::kInvalidCommunicationId, connection->local_id);
      // The peer has not seen the RTU, or there is none yet.
      ++counters_.cm_duplicates;
      if (connection->state == State::kEstablished) return send(*connection, connection->sent);
      return send(*connection, make_mra(*connection, AboutMessage::kRep, kRepServiceTimeout));
    default:
      return;
  }
  stop_timer(*connection);
  connection->state = State::kRepReceived;
  note_reached(*connection, now);
  connection->remote_id = message.get(layout::kLocalId);
  connection->mad_path.remote_id = connection->remote_id;
  connection->remote_guid = message.get64(layout::rep::kLocalCaGuid);
  connection->peer_incarnation = transport_.incarnation(connection->mad_path);
  connection->peer = parameters_of_rep(message);
  connection->own.responder_resources = connection->peer.responder_resources;
  connection->own.initiator_depth = connection->peer.initiator_depth;
  raise(Event{.type = EventType::kReply,
              .connection = connection,
              .peer = connection->peer,
              .private_data = private_data(message, layout::rep::kPrivateData)});
}

void ConnectionManager::on_rtu(Connection& connection) {
  if (connection.state != State::kRepSent && connection.state != State::kMraRepReceived) return;
  stop_timer(connection);
  connection.state = State::kEstablished;
  ++counters_.cm_connections;
  raise(connection, EventType::kEstablished);
}

void ConnectionManager::on_mra(Connection& connection, const Mad& message, Instant now) {
  const auto about = static_cast<AboutMessage>(message.get(layout::mra::kMessageAcknowledged));
  if (about == AboutMessage::kReq && connection.state == State::kReqSent) {
    connection.state = State::kMraReqReceived;
    connection.remote_id = message.get(layout::kLocalId);
    connection.mad_path.remote_id = connection.remote_id;
  } else if (about == AboutMessage::kRep && connection.state == State::kRepSent) {
    connection.state = State::kMraRepReceived;
  } else if (about == AboutMessage::kReq ? connection.state != State::kMraReqReceived
                                         : connection.state != State::kMraRepReceived) {
    return;
  }
  const std::uint32_t exponent = message.get(layout::mra::kServiceTimeout);
  wait_until(connection, now + nanoseconds(std::int64_t{4096} << exponent));
}

void ConnectionManager::note_reached(const Connection& connection, Instant now) {
  reached_services_.push_back({connection.remote, now});
  if (reached_services_.size() > kMostReachedServices) reached_services_.pop_front();
}

bool ConnectionManager::may_listen_again(const Connection& connection, Instant now) const {
  const bool has_asked = connection.state == State::kReqSent || connection.state == State::kSidrReqSent;
  if (!has_asked || now - connection.asked_at >= kAskAgain) return false;
  return std::any_of(reached_services_.begin(), reached_services_.end(), [&](const ReachedService& reached) {
    return reached.remote == connection.remote && now - reached.at < kReachedLately;
  });
}

void ConnectionManager::on_rej(const MadPath& path, const Mad& message, Instant now) {
  const std::uint32_t remote_id = message.get(layout::kLocalId);
  const auto reason = static_cast<RejectReason>(message.get(layout::rej::kReason));
  Connection* connection = find(message.get(layout::kRemoteId), path);
  // Whoever gives up waiting for an answer to its REQ does not know our id.
  if (connection == nullptr && reason == RejectReason::kTimeout)
    connection = find_if([&](const Connection& other) {
      return !other.is_active && other.remote_id == remote_id && other.mad_path.remote == path.remote &&
             (other.state == State::kReqReceived || other.state == State::kRepSent ||
              other.state == State::kMraRepReceived);
    });
  if (connection == nullptr) return;
  // The timer of the REQ sends it again.
  if (reason == RejectReason::kInvalidServiceId && may_listen_again(*connection, now)) return;
  switch (connection->state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kReqReceived:
      connection->state = State::kIdle;
      stop_timer(*connection);
      break;
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kRepReceived:
    case State::kEstablished:
      // A refusal of this side's own REQ cannot come once the REP has.
      if (connection->is_active &&
          message.get(layout::rej::kMessageRejected) == static_cast<std::uint32_t>(AboutMessage::kReq))
        return;
      enter_timewait(*connection, now);
      break;
    case State::kDreqSent:
      enter_timewait(*connection, now);
      return raise(*connection, EventType::kDisconnected);
    default:
      return;
  }
  raise(Event{.type = EventType::kRejected,
              .connection = connection,
              .status = static_cast<std::uint32_t>(reason),
              .private_data = private_data(message, layout::rej::kPrivateData)});
}

void ConnectionManager::on_dreq(const MadPath& path, const Mad& message, Instant now) {
  Connection* connection = find(message.get(layout::kRemoteId), path);
  const auto answer = [&] {
    MadPath back = path;
    back.remote_id = message.get(layout::kLocalId);
    transport_.send(back, make_drep(message));
  };
  // The peer may have missed the answer to an earlier one.
  if (connection == nullptr) return answer();
  if (connection->remote_id != message.get(layout::kLocalId)) return;
  switch (connection->state) {
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kEstablished:
      stop_timer(*connection);
      connection->state = State::kDreqReceived;
      connection->sent = message;
      return raise(*connection, EventType::kDisconnected);
    case State::kDreqSent:
      // Both ends at once: neither will ask its program again.
      answer();
      enter_timewait(*connection, now);
      return raise(*connection, EventType::kDisconnected);
    case State::kTimewait:
      return answer();
    default:
      return;
  }
}

void ConnectionManager::on_drep(Connection& connection, Instant now) {
  if (connection.state != State::kDreqSent) return;
  enter_timewait(connection, now);
  raise(connection, EventType::kDisconnected);
}

/// Alternate paths are not for RoCE, where routing is IP's business (IBTA 12.6.9).
void ConnectionManager::on_lap(const MadPath& path, const Mad& message) {
  constexpr std::uint32_t kLapNotSupported = 2;
  Mad answer = make_cm_message(CmAttribute::kApr, message.get64(mad::kTransactionId));
  answer.set(layout::kLocalId, message.get(layout::kRemoteId));
  answer.set(layout::kRemoteId, message.get(layout::kLocalId));
  answer.set(layout::apr::kStatus, kLapNotSupported);
  MadPath back = path;
  back.remote_id = message.get(layout::kLocalId);
  transport_.send(back, answer);
}

void ConnectionManager::on_sidr_req(const MadPath& path, const Mad& message, Instant now) {
  namespace sidr_req = layout::sidr_req;
  const std::uint32_t request_id = message.get(sidr_req::kRequestId);
  Connection* known = find_if([&](const Connection& other) {
    return (other.state == State::kSidrReqReceived || other.state == State::kSidrReplied) &&
           other.remote_id == request_id && other.mad_path.remote == path.remote;
  });
  if (known != nullptr) {
    ++counters_.cm_duplicates;
    if (known->state == State::kSidrReplied) send(*known, known->sent);
    return;
  }
  Connection refused;
  refused.transaction_id = message.get64(mad::kTransactionId);
  refused.remote_id = request_id;
  refused.service_id = message.get64(sidr_req::kServiceId);
  refused.mad_path = {.local = path.local, .remote = path.remote, .remote_id = request_id};
  const auto header = IpCmHeader::read(private_data(message, sidr_req::kPrivateData).data());
  Connection* listener = nullptr;
  if (is_ip_service_id(refused.service_id) && good_header(header))
    listener = ports_.find_listener(port_space_of(refused.service_id),
                                    {header.destination_address(), port_of(refused.service_id)});
  if (listener == nullptr && transport_.pass_on(path, message)) return;
  // It is sent again.
  if (listener == nullptr && was_left_lately(refused.service_id, now)) return;
  if (listener == nullptr) return send(refused, make_sidr_rep(refused, SidrStatus::kUnsupported, {}));

  Connection& made = *create(listener->port_space, nullptr);
  made.state = State::kSidrReqReceived;
  made.local = {header.destination_address(), listener->local.port};
  made.remote = source_of(header);
  made.remote_id = request_id;
  made.transaction_id = refused.transaction_id;
  made.service_id = refused.service_id;
  made.mad_path = refused.mad_path;
  const Event event{.type = EventType::kRequest,
                    .connection = &made,
                    .listener = listener,
                    .private_data = private_data(message, kSidrConsumerData)};
  if (handler_ != nullptr && handler_->on_cm_event(event)) return;
  reject(made, RejectReason::kConsumer, {});
  erase(made);
}

void ConnectionManager::on_sidr_rep(const MadPath& path, const Mad& message, Instant now) {
  namespace sidr_rep = layout::sidr_rep;
  Connection* connection = find(message.get(sidr_rep::kRequestId), path);
  if (connection == nullptr || connection->state != State::kSidrReqSent) return;
  const auto status = static_cast<SidrStatus>(message.get(sidr_rep::kStatus));
  if (status == SidrStatus::kUnsupported && may_listen_again(*connection, now)) return;
  if (status == SidrStatus::kSuccess) note_reached(*connection, now);
  stop_timer(*connection);
  connection->state = State::kIdle;
  connection->peer.qpn = Qpn{message.get(sidr_rep::kQpn)};
  connection->peer.qkey = message.get(sidr_rep::kQkey);
  raise(Event{.type = EventType::kDatagramReply,
              .connection = connection,
              .status = message.get(sidr_rep::kStatus),
              .peer = connection->peer,
              .private_data = private_data(message, sidr_rep::kPrivateData)});
}

}  // namespace roci::cm
