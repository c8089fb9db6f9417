// Ids: made, bound, resolved, moved and destroyed.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stack/cm/connection_manager.h"
#include "stack/cm/port_table.h"
#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/rdmacm/ids.h"

namespace roci::shim {
namespace {

constexpr std::uint16_t kDefaultPkey = 0xffff;

bool is_loopback(const IpAddress& address) {
  if (address.is_v4()) return address.v4_host_order() >> 24 == 127;
  IpAddress loopback;
  loopback.bytes[15] = 1;
  return address == loopback;
}

/// The device's address that stands for `wanted`: itself, or for a loopback address the first of its family.
bool choose_local(const CmId& id, const IpAddress& wanted, bool any_of_family, IpAddress* chosen) {
  const auto own = device_of(id.device->verbs).port_attributes().addresses;
  const bool first_of_family = any_of_family || is_loopback(wanted);
  const auto found = std::find_if(own.begin(), own.end(), [&](const IpAddress& address) {
    return first_of_family ? address.is_v4() == wanted.is_v4() : address == wanted;
  });
  if (found == own.end()) return false;
  *chosen = *found;
  return true;
}

int bind(CmId& id, cm::Endpoint local) {
  if (!cm::is_wildcard(local.address) && !choose_local(id, local.address, false, &local.address)) return EADDRNOTAVAIL;
  LiveDevice::CmCall call(live_of(*id.device));
  return call->bind(*id.connection, local);
}

/// Chooses both ends' addresses: the path is then known, since on IP the link does the routing.
int resolve(CmId& id, const sockaddr* source, const sockaddr* destination, int timeout_ms) {
  cm::Endpoint to;
  if (destination == nullptr || !read_address(destination, &to)) return EAFNOSUPPORT;
  cm::Connection& connection = *id.connection;
  if (!connection.is_bound) {
    cm::Endpoint from = {to.address.is_v4() ? IpAddress::v4(0) : IpAddress{}, 0};
    if (source != nullptr && source->sa_family != AF_UNSPEC && !read_address(source, &from)) return EAFNOSUPPORT;
    if (const int error = bind(id, from); error != 0) return error;
  }
  if (is_loopback(to.address) && !choose_local(id, to.address, true, &to.address)) return ENETUNREACH;
  IpAddress local = connection.local.address;
  // A wildcard for IPv6 stands for IPv4 as well.
  if (cm::is_wildcard(local) && !choose_local(id, to.address, true, &local)) return ENETUNREACH;
  if (local.is_v4() != to.address.is_v4()) return EINVAL;
  LiveDevice::CmCall call(live_of(*id.device));
  // Another thread may get the event before this call returns.
  call->set_route(connection, local, to);
  describe(id);
  return call->resolve(connection, local, to, milliseconds(std::max(timeout_ms, 0)), call.now);
}

void describe_path(CmId& id) {
  ibv_sa_path_rec& path = id.path_record;
  const rdma_ib_addr& ends = id.base.route.addr.addr.ibaddr;
  path = {};
  path.dgid = ends.dgid;
  path.sgid = ends.sgid;
  path.hop_limit = AddressVector{}.hop_limit;
  path.traffic_class = id.tos;
  path.reversible = 1;
  path.numb_path = 1;
  path.pkey = __builtin_bswap16(kDefaultPkey);
  constexpr std::uint8_t kExactly = 2;  // of a selector (IBTA 15.2.5.16)
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
  path.mtu = device_of(id.device->verbs).active_mtu();
  path.rate = IBV_RATE_100_GBPS;
  path.packet_life_time = static_cast<std::uint8_t>(id.ack_timeout - 1);
  id.base.route.path_rec = &path;
  id.base.route.num_paths = 1;
}

int make_id(rdma_event_channel* channel, rdma_cm_id** out, void* context, rdma_port_space space, ibv_qp_type qp_type) {
  // Port spaces of InfiniBand alone are for its own addresses.
  if (space != RDMA_PS_TCP && space != RDMA_PS_UDP && space != RDMA_PS_IPOIB)
    return space == RDMA_PS_IB ? EOPNOTSUPP : EPROTONOSUPPORT;
  const CmDevice* device = cm_device();
  if (device == nullptr) return errno;
  const bool is_sync = channel == nullptr;
  if (is_sync) channel = rdma_create_event_channel();
  if (channel == nullptr) return errno;
  CmId* id = new_id(*device, channel, context, space, qp_type);
  id->is_sync = is_sync;
  {
    LiveDevice::CmCall call(live_of(*device));
    id->connection = call->create(static_cast<cm::PortSpace>(space), id);
  }
  *out = &id->base;
  return 0;
}

ibv_qp_type usual_qp_type(rdma_port_space space) { return space == RDMA_PS_TCP ? IBV_QPT_RC : IBV_QPT_UD; }

}  // namespace

bool is_datagram(const CmId& id) { return id.base.ps == RDMA_PS_UDP || id.base.ps == RDMA_PS_IPOIB; }

CmId* new_id(const CmDevice& device, rdma_event_channel* channel, void* context, rdma_port_space space,
             ibv_qp_type qp_type) {
  auto* id = new CmId{};
  id->device = &device;
  id->base.channel = channel;
  id->base.context = context;
  id->base.ps = space;
  id->base.qp_type = qp_type;
  id->ack_timeout = cm::kDefaultAckTimeout;
  pthread_mutex_init(&id->mutex, nullptr);
  pthread_cond_init(&id->cond, nullptr);
  return id;
}

void delete_id(CmId* id) {
  pthread_mutex_destroy(&id->mutex);
  pthread_cond_destroy(&id->cond);
  delete id;
}

void describe(CmId& id) {
  const cm::Connection& connection = *id.connection;
  rdma_addr& addr = id.base.route.addr;
  if (connection.is_bound || connection.service_id != 0) write_address(connection.local, &addr.src_storage);
  if (!connection.remote.address.is_unspecified()) write_address(connection.remote, &addr.dst_storage);
  if (!connection.is_bound && connection.service_id == 0) return;
  if (cm::is_wildcard(connection.local.address)) return;
  id.base.verbs = id.device->verbs;
  if (id.base.pd == nullptr) id.base.pd = id.device->pd;
  id.base.port_num = 1;
  std::memcpy(addr.addr.ibaddr.sgid.raw, connection.local.address.bytes.data(), 16);
  std::memcpy(addr.addr.ibaddr.dgid.raw, connection.remote.address.bytes.data(), 16);
  addr.addr.ibaddr.pkey = __builtin_bswap16(kDefaultPkey);
}

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** out, void* context, rdma_port_space space) {
  return result(make_id(channel, out, context, space, usual_qp_type(space)));
}

ROCI_EXPORT int rdma_destroy_id(rdma_cm_id* base) {
  CmId* id = from(base);
  if (!is_detached(id->device->verbs)) {
    {
      roci::LiveDevice::CmCall call(live_of(*id->device));
      call->destroy(*id->connection, call.now);
      id->connection = nullptr;
    }
    if (id->base.event != nullptr) rdma_ack_cm_event(id->base.event);
    id->base.event = nullptr;
    forget_events(*id);
    wait_for_acknowledgement(*id);
    if (id->is_sync) delete_channel(id->base.channel);
  }
  delete_id(id);
  return 0;
}

ROCI_EXPORT int rdma_bind_addr(rdma_cm_id* base, sockaddr* addr) {
  CmId& id = *from(base);
  roci::cm::Endpoint local;
  if (!read_address(addr, &local)) return fail(EAFNOSUPPORT);
  if (const int error = bind(id, local); error != 0) return fail(error);
  describe(id);
  return 0;
}

ROCI_EXPORT int rdma_resolve_addr(rdma_cm_id* base, sockaddr* source, sockaddr* destination, int timeout_ms) {
  CmId& id = *from(base);
  if (const int error = resolve(id, source, destination, timeout_ms); error != 0) return fail(error);
  return complete(id);
}

ROCI_EXPORT int rdma_resolve_route(rdma_cm_id* base, int) {
  CmId& id = *from(base);
  if (id.connection->remote.address.is_unspecified() || id.base.verbs == nullptr) return fail(EINVAL);
  describe_path(id);
  raise_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  return complete(id);
}

ROCI_EXPORT __be16 rdma_get_src_port(rdma_cm_id* base) { return __builtin_bswap16(from(base)->connection->local.port); }

ROCI_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* base) {
  return __builtin_bswap16(from(base)->connection->remote.port);
}

ROCI_EXPORT int rdma_set_option(rdma_cm_id* base, int level, int name, void* value, std::size_t bytes) {
  CmId& id = *from(base);
  if (level != RDMA_OPTION_ID) return fail(ENOSYS);
  const bool is_byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (bytes != (is_byte ? sizeof(std::uint8_t) : sizeof(int))) return fail(EINVAL);
  std::uint8_t byte = 0;
  int number = 0;
  std::memcpy(is_byte ? static_cast<void*>(&byte) : &number, value, bytes);
  constexpr std::uint8_t kLongestAckTimeout = 31;
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      id.tos = byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
    case RDMA_OPTION_ID_AFONLY: {
      roci::LiveDevice::CmCall call(live_of(*id.device));
      (name == RDMA_OPTION_ID_AFONLY ? id.connection->address_family_only : id.connection->reuse_address) = number != 0;
      return 0;
    }
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (is_datagram(id) || byte > kLongestAckTimeout) return fail(EINVAL);
      id.ack_timeout = byte == 0 ? roci::cm::kDefaultAckTimeout : byte;
      return 0;
    default:
      return fail(ENOSYS);
  }
}

ROCI_EXPORT int rdma_migrate_id(rdma_cm_id* base, rdma_event_channel* channel) {
  CmId& id = *from(base);
  const bool to_sync = channel == nullptr;
  if (id.is_sync && to_sync) return fail(EINVAL);
  if (to_sync) channel = rdma_create_event_channel();
  if (channel == nullptr) return -1;
  if (id.is_sync && id.base.event != nullptr) rdma_ack_cm_event(std::exchange(id.base.event, nullptr));
  rdma_event_channel* before = id.base.channel;
  {
    // Nothing new is raised meanwhile.
    roci::LiveDevice::CmCall call(live_of(*id.device));
    std::vector<CmEvent*> moved;
    from(before)->events.purge([&](CmEvent* event) {
      if (event->owner != &id) return false;
      moved.push_back(event);
      return true;
    });
    for (CmEvent* event : moved) from(channel)->events.push(event);
    id.base.channel = channel;
  }
  if (id.is_sync) delete_channel(before);
  id.is_sync = to_sync;
  wait_for_acknowledgement(id);
  return 0;
}

namespace {

/// As rdma_create_id() makes it synchronously, bound or resolved to what the address information says.
int make_endpoint(rdma_cm_id* base, rdma_addrinfo* info, ibv_pd* pd, ibv_qp_init_attr* attr) {
  CmId& id = *from(base);
  if ((info->ai_flags & RAI_PASSIVE) != 0) {
    if (rdma_bind_addr(base, info->ai_src_addr) != 0) return -1;
    if (pd != nullptr) base->pd = pd;
    if (attr == nullptr) return 0;
    id.request_qp = std::make_unique<ibv_qp_init_attr>(*attr);
    id.request_qp->qp_type = static_cast<ibv_qp_type>(info->ai_qp_type);
    return 0;
  }
  constexpr int kTimeoutMilliseconds = 2000;
  if (rdma_resolve_addr(base, info->ai_src_addr, info->ai_dst_addr, kTimeoutMilliseconds) != 0) return -1;
  if (rdma_resolve_route(base, kTimeoutMilliseconds) != 0) return -1;
  if (attr != nullptr) {
    attr->qp_type = static_cast<ibv_qp_type>(info->ai_qp_type);
    if (rdma_create_qp(base, pd, attr) != 0) return -1;
  }
  const auto data = bytes_of(info->ai_connect, info->ai_connect_len);
  id.connect_data.assign(data.begin(), data.end());
  return 0;
}

}  // namespace

ROCI_EXPORT int rdma_create_ep(rdma_cm_id** out, rdma_addrinfo* info, ibv_pd* pd, ibv_qp_init_attr* attr) {
  rdma_cm_id* made = nullptr;
  const int error = make_id(nullptr, &made, nullptr, static_cast<rdma_port_space>(info->ai_port_space),
                            static_cast<ibv_qp_type>(info->ai_qp_type));
  if (error != 0) return fail(error);
  if (make_endpoint(made, info, pd, attr) != 0) {
    const int reason = errno;
    rdma_destroy_ep(made);
    return fail(reason);
  }
  *out = made;
  return 0;
}

ROCI_EXPORT void rdma_destroy_ep(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  if (id->srq != nullptr) rdma_destroy_srq(id);
  rdma_destroy_id(id);
}
