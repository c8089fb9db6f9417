// Event channels, and events from the connection manager to the client.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include "verbs-shim/rdmacm/ids.h"

namespace roci::shim {
namespace {

void copy_private_data(CmEvent* to, std::span<const std::byte> data, const void** pointer, std::uint8_t* length) {
  if (data.empty()) return;
  std::memcpy(to->private_data.data(), data.data(), data.size());
  *pointer = to->private_data.data();
  *length = static_cast<std::uint8_t>(data.size());
}

void describe_peer(const cm::Event& event, CmEvent* to) {
  rdma_conn_param& conn = to->base.param.conn;
  conn.responder_resources = event.peer.responder_resources;
  conn.initiator_depth = event.peer.initiator_depth;
  conn.flow_control = event.peer.flow_control;
  conn.retry_count = event.peer.retry_count;
  conn.rnr_retry_count = event.peer.rnr_retry_count;
  conn.srq = event.peer.srq;
  conn.qp_num = event.peer.qpn.value;
}

rdma_cm_event_type type_of(const cm::Event& event) {
  switch (event.type) {
    case cm::EventType::kAddressResolved:
      return RDMA_CM_EVENT_ADDR_RESOLVED;
    case cm::EventType::kAddressError:
      return RDMA_CM_EVENT_ADDR_ERROR;
    case cm::EventType::kRequest:
      return RDMA_CM_EVENT_CONNECT_REQUEST;
    case cm::EventType::kReply:
      return RDMA_CM_EVENT_CONNECT_RESPONSE;
    case cm::EventType::kEstablished:
      return RDMA_CM_EVENT_ESTABLISHED;
    case cm::EventType::kRejected:
      return RDMA_CM_EVENT_REJECTED;
    case cm::EventType::kUnreachable:
      return RDMA_CM_EVENT_UNREACHABLE;
    case cm::EventType::kDisconnected:
      return RDMA_CM_EVENT_DISCONNECTED;
    case cm::EventType::kTimewaitExit:
      return RDMA_CM_EVENT_TIMEWAIT_EXIT;
    case cm::EventType::kDatagramReply:
      break;
  }
  return event.status == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE;
}

/// What a peer says is a positive number, what this side found out a negative errno value.
int status_of(const cm::Event& event) {
  const bool own = event.type == cm::EventType::kUnreachable || event.type == cm::EventType::kDisconnected ||
                   event.type == cm::EventType::kAddressError;
  return own ? -static_cast<int>(event.status) : static_cast<int>(event.status);
}

/// The new id of a request. Null with no room in the backlog.
CmId* make_requested_id(const cm::Event& event) {
  auto* listener = static_cast<CmId*>(event.listener->user);
  if (listener == nullptr || listener->unfetched_requests.load() >= listener->backlog) return nullptr;
  rdma_event_channel* channel = listener->is_sync ? rdma_create_event_channel() : listener->base.channel;
  if (channel == nullptr) return nullptr;
  CmId* id = new_id(*listener->device, channel, listener->base.context, listener->base.ps, listener->base.qp_type);
  id->is_sync = listener->is_sync;
  id->connection = event.connection;
  id->tos = event.connection->path.traffic_class;
  id->initiator_depth = event.peer.initiator_depth;
  id->responder_resources = event.peer.responder_resources;
  event.connection->user = id;
  describe(*id);
  ++listener->unfetched_requests;
  return id;
}

class Handler : public cm::EventHandler {
 public:
  bool on_cm_event(const cm::Event& event) override {
    const bool is_request = event.type == cm::EventType::kRequest;
    CmId* id = is_request ? make_requested_id(event) : static_cast<CmId*>(event.connection->user);
    if (id == nullptr) return false;
    auto* made = new CmEvent{};
    made->owner = is_request ? static_cast<CmId*>(event.listener->user) : id;
    made->base.id = &id->base;
    if (is_request) made->base.listen_id = &made->owner->base;
    made->base.event = type_of(event);
    made->base.status = status_of(event);
    if (is_datagram(*id)) {
      rdma_ud_param& ud = made->base.param.ud;
      ud.qp_num = event.peer.qpn.value;
      ud.qkey = event.peer.qkey;
      copy_private_data(made, event.private_data, &ud.private_data, &ud.private_data_len);
    } else {
      rdma_conn_param& conn = made->base.param.conn;
      if (is_request || event.type == cm::EventType::kReply) describe_peer(event, made);
      copy_private_data(made, event.private_data, &conn.private_data, &conn.private_data_len);
    }
    from(made->owner->base.channel)->events.push(made);
    return true;
  }
};

/// The REP has come: the QP follows it, and the RTU says so. What the client hears is that it is connected.
void finish_connecting(CmId& id, CmEvent* event) {
  const rdma_conn_param& conn = event->base.param.conn;
  int error = 0;
  if (qp_to_ready(id, conn.responder_resources, conn.initiator_depth) != 0) {
    error = errno;
  } else {
    LiveDevice::CmCall call(live_of(*id.device));
    error = call->establish(*id.connection);
  }
  event->base.event = error == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_ERROR;
  if (error == 0) return;
  event->base.status = -error;
  id.connect_failed = true;
  LiveDevice::CmCall call(live_of(*id.device));
  call->reject(*id.connection, cm::RejectReason::kConsumer, {});
}

/// The QP, if there is one, is in the group before the client hears of it.
void join_group(CmId& id, CmEvent* event) {
  const ibv_gid& group = event->base.param.ud.ah_attr.grh.dgid;
  const auto joined = std::find_if(id.memberships.begin(), id.memberships.end(), [&](const CmMembership& membership) {
    return std::memcmp(membership.gid.raw, group.raw, sizeof group.raw) == 0;
  });
  if (joined == id.memberships.end() || id.base.qp == nullptr) return;
  const int error = ibv_attach_mcast(id.base.qp, &joined->gid, 0);
  joined->attached = error == 0;
  if (error == 0) return;
  event->base.event = RDMA_CM_EVENT_MULTICAST_ERROR;
  event->base.status = -error;
}

/// What the event asks of the library before the client sees it. False: nothing for the client.
bool prepare(CmEvent* event) {
  CmId& id = *from(event->base.id);
  switch (event->base.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      --event->owner->unfetched_requests;
      break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      if (id.base.qp != nullptr) finish_connecting(id, event);
      break;
    case RDMA_CM_EVENT_ESTABLISHED:
      if (is_datagram(id)) event->base.param.ud.ah_attr = address_attributes(id, id.connection->remote.address);
      break;
    case RDMA_CM_EVENT_REJECTED:
      qp_to_error(id);
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      return !id.connect_failed;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      join_group(id, event);
      break;
    default:
      break;
  }
  return true;
}

/// In a child of the process that made the id there is nobody to speak to.
void count_completed(CmId& id) {
  pthread_mutex_lock(&id.mutex);
  ++id.events_completed;
  pthread_cond_signal(&id.cond);
  pthread_mutex_unlock(&id.mutex);
}

void drop_events(rdma_event_channel* channel) {
  from(channel)->events.purge([](CmEvent* event) {
    delete event;
    return true;
  });
}

}  // namespace

cm::EventHandler& cm_event_handler() {
  static auto* handler = new Handler;
  return *handler;
}

void raise_event(CmId& id, rdma_cm_event_type type, int status) {
  auto* made = new CmEvent{};
  made->owner = &id;
  made->base.id = &id.base;
  made->base.event = type;
  made->base.status = status;
  from(id.base.channel)->events.push(made);
}

int complete(CmId& id) {
  if (!id.is_sync) return 0;
  if (id.base.event != nullptr) {
    rdma_ack_cm_event(id.base.event);
    id.base.event = nullptr;
  }
  if (rdma_get_cm_event(id.base.channel, &id.base.event) != 0) return -1;
  const int status = id.base.event->status;
  if (status == 0) return 0;
  return fail(id.base.event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : status < 0 ? -status : ECONNABORTED);
}

void forget_events(CmId& id) {
  std::vector<CmEvent*> forgotten;
  from(id.base.channel)->events.purge([&](CmEvent* event) {
    const bool is_about = event->owner == &id || event->base.id == &id.base;
    if (is_about) forgotten.push_back(event);
    return is_about;
  });
  for (CmEvent* event : forgotten) {
    // Nobody will ever see the id of a request that was not fetched.
    if (event->base.id != &id.base) rdma_destroy_id(event->base.id);
    delete event;
  }
}

void delete_channel(rdma_event_channel* channel) {
  drop_events(channel);
  delete from(channel);
}

void wait_for_acknowledgement(CmId& id) {
  pthread_mutex_lock(&id.mutex);
  while (id.events_completed != id.events_delivered) pthread_cond_wait(&id.cond, &id.mutex);
  pthread_mutex_unlock(&id.mutex);
}

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT rdma_event_channel* rdma_create_event_channel() {
  auto* channel = new CmChannel{};
  channel->base.fd = channel->events.fd();
  if (channel->base.fd >= 0) return &channel->base;
  const int error = errno;
  delete channel;
  errno = error;
  return nullptr;
}

ROCI_EXPORT void rdma_destroy_event_channel(rdma_event_channel* channel) {
  // A thread of the client may be just about to wait there once more, as rping's is, and would never return from a
  // kernel's. So the last few channels stay, silent.
  constexpr std::size_t kMostSilent = 4;
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static auto* silent = new std::deque<rdma_event_channel*>;
  drop_events(channel);
  rdma_event_channel* oldest = nullptr;
  pthread_mutex_lock(&mutex);
  silent->push_back(channel);
  if (silent->size() > kMostSilent) {
    oldest = silent->front();
    silent->pop_front();
  }
  pthread_mutex_unlock(&mutex);
  if (oldest != nullptr) delete_channel(oldest);
}

ROCI_EXPORT int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** out) {
  if (channel == nullptr) return fail(EINVAL);
  for (;;) {
    CmEvent* event = nullptr;
    const auto count = [](CmEvent* taken) { ++taken->owner->events_delivered; };
    if (!from(channel)->events.take(&event, count)) return -1;
    *out = &event->base;
    if (prepare(event)) return 0;
    rdma_ack_cm_event(&event->base);
  }
}

ROCI_EXPORT int rdma_ack_cm_event(rdma_cm_event* base) {
  if (base == nullptr) return fail(EINVAL);
  auto* event = reinterpret_cast<CmEvent*>(base);
  CmId* owner = event->owner;
  delete event;
  count_completed(*owner);
  return 0;
}

ROCI_EXPORT const char* rdma_event_str(rdma_cm_event_type event) {
  static constexpr std::array<const char*, 16> kNames{
      "RDMA_CM_EVENT_ADDR_RESOLVED",  "RDMA_CM_EVENT_ADDR_ERROR",      "RDMA_CM_EVENT_ROUTE_RESOLVED",
      "RDMA_CM_EVENT_ROUTE_ERROR",    "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",  "RDMA_CM_EVENT_UNREACHABLE",     "RDMA_CM_EVENT_REJECTED",
      "RDMA_CM_EVENT_ESTABLISHED",    "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE",
      "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
  const auto index = static_cast<std::size_t>(event);
  return index < kNames.size() ? kNames[index] : "UNKNOWN EVENT";
}
