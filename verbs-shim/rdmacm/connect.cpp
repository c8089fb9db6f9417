// Connections: asked for, accepted, refused, ended.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "stack/cm/connection_manager.h"
#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/rdmacm/ids.h"

namespace roci::shim {
namespace {

constexpr std::uint8_t kMaxRetryCount = 7;  // three bits
constexpr int kMaxBacklog = 1024;

/// The client's limit, or the most that there is.
bool choose_depth(const rdma_conn_param* param, std::uint8_t rdma_conn_param::*field, std::uint8_t most,
                  std::uint8_t most_of_device, std::uint8_t* chosen) {
  static_assert(int{RDMA_MAX_INIT_DEPTH} == int{RDMA_MAX_RESP_RES});
  *chosen = std::min(most, most_of_device);
  if (param == nullptr || param->*field == RDMA_MAX_INIT_DEPTH) return true;
  *chosen = param->*field;
  return param->*field <= most_of_device;
}

/// False if the client asks for more than the device has.
bool choose_parameters(const CmId& id, const rdma_conn_param* param, cm::ConnectionParameters* own) {
  *own = {.retry_count = kMaxRetryCount, .rnr_retry_count = kMaxRetryCount, .flow_control = true};
  if (!choose_depth(param, &rdma_conn_param::responder_resources, id.responder_resources,
                    id.device->max_responder_resources, &own->responder_resources) ||
      !choose_depth(param, &rdma_conn_param::initiator_depth, id.initiator_depth, id.device->max_initiator_depth,
                    &own->initiator_depth))
    return false;
  if (param != nullptr) {
    own->flow_control = param->flow_control != 0;
    own->retry_count = std::min(param->retry_count, kMaxRetryCount);
    own->rnr_retry_count = std::min(param->rnr_retry_count, kMaxRetryCount);
  }
  if (id.base.qp != nullptr) {
    own->qpn = Qpn{id.base.qp->qp_num};
    own->srq = id.base.qp->srq != nullptr;
  } else if (param != nullptr) {
    own->qpn = Qpn{param->qp_num};
    own->srq = param->srq != 0;
  }
  return true;
}

std::span<const std::byte> private_data_of(const rdma_conn_param* param) {
  return param == nullptr ? std::span<const std::byte>{} : bytes_of(param->private_data, param->private_data_len);
}

/// What rdma_create_ep() was given goes before what rdma_connect() says.
std::vector<std::byte> connect_data(const CmId& id, const rdma_conn_param* param) {
  std::vector<std::byte> data = id.connect_data;
  const auto more = private_data_of(param);
  data.insert(data.end(), more.begin(), more.end());
  return data;
}

int accept_datagram(CmId& id, const rdma_conn_param* param) {
  const Qpn qpn{id.base.qp != nullptr ? id.base.qp->qp_num : param != nullptr ? param->qp_num : 0};
  LiveDevice::CmCall call(live_of(*id.device));
  return call->answer_service(*id.connection, qpn, RDMA_UDP_QKEY, private_data_of(param));
}

int reject(CmId& id, const void* data, std::uint8_t bytes) {
  LiveDevice::CmCall call(live_of(*id.device));
  return call->reject(*id.connection, cm::RejectReason::kConsumer, bytes_of(data, bytes));
}

}  // namespace
}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT int rdma_listen(rdma_cm_id* base, int backlog) {
  CmId& id = *from(base);
  id.backlog = static_cast<std::uint32_t>(backlog <= 0 || backlog > kMaxBacklog ? kMaxBacklog : backlog);
  {
    roci::LiveDevice::CmCall call(live_of(*id.device));
    if (!id.connection->is_bound) {
      const int error = call->bind(*id.connection, {roci::IpAddress::v4(0), 0});
      if (error != 0) return fail(error);
    }
    if (const int error = call->listen(*id.connection, call.now); error != 0) return fail(error);
  }
  describe(id);
  return 0;
}

ROCI_EXPORT int rdma_connect(rdma_cm_id* base, rdma_conn_param* param) {
  CmId& id = *from(base);
  if (base->verbs == nullptr) return fail(EINVAL);
  id.initiator_depth = id.device->max_initiator_depth;
  id.responder_resources = id.device->max_responder_resources;
  roci::cm::ConnectionParameters own;
  if (!is_datagram(id) && !choose_parameters(id, param, &own)) return fail(EINVAL);
  const roci::cm::PathParameters path{.path_mtu = device_of(base->verbs).active_mtu(),
                                      .traffic_class = id.tos,
                                      .ack_timeout = id.ack_timeout,
                                      .is_unreliable = base->qp_type == IBV_QPT_UC};
  const std::vector<std::byte> data = connect_data(id, param);
  {
    roci::LiveDevice::CmCall call(live_of(*id.device));
    const int error = is_datagram(id) ? call->resolve_service(*id.connection, data, call.now)
                                      : call->connect(*id.connection, own, path, data, call.now);
    if (error != 0) return fail(error);
  }
  return complete(id);
}

ROCI_EXPORT int rdma_establish(rdma_cm_id* base) {
  // Of a QP that the id has, the library takes care by itself.
  if (base->qp != nullptr) return fail(EINVAL);
  CmId& id = *from(base);
  roci::LiveDevice::CmCall call(live_of(*id.device));
  return result(call->establish(*id.connection));
}

ROCI_EXPORT int rdma_accept(rdma_cm_id* base, rdma_conn_param* param) {
  CmId& id = *from(base);
  if (is_datagram(id)) {
    // A request for a datagram service is over with its answer.
    if (const int error = accept_datagram(id, param); error != 0) return fail(error);
    if (id.is_sync && base->event != nullptr) rdma_ack_cm_event(std::exchange(base->event, nullptr));
    return 0;
  }
  roci::cm::ConnectionParameters own;
  if (!choose_parameters(id, param, &own)) return fail(EINVAL);
  if (qp_to_ready(id, own.responder_resources, own.initiator_depth) != 0) return -1;
  int error = 0;
  {
    roci::LiveDevice::CmCall call(live_of(*id.device));
    error = call->accept(*id.connection, own, private_data_of(param), call.now);
  }
  if (error != 0) {
    qp_to_error(id);
    return fail(error);
  }
  return complete(id);
}

ROCI_EXPORT int rdma_reject(rdma_cm_id* id, const void* data, std::uint8_t bytes) {
  return result(reject(*from(id), data, bytes));
}

ROCI_EXPORT int rdma_reject_ece(rdma_cm_id* id, const void* data, std::uint8_t bytes) {
  return result(reject(*from(id), data, bytes));
}

ROCI_EXPORT int rdma_notify(rdma_cm_id* base, ibv_event_type event) {
  if (event != IBV_EVENT_COMM_EST) return 0;
  CmId& id = *from(base);
  roci::LiveDevice::CmCall call(live_of(*id.device));
  return result(call->notify_established(*id.connection));
}

ROCI_EXPORT int rdma_disconnect(rdma_cm_id* base) {
  CmId& id = *from(base);
  if (qp_to_error(id) != 0) return -1;
  {
    roci::LiveDevice::CmCall call(live_of(*id.device));
    if (id.connection->service_id == 0 || is_datagram(id)) return fail(EINVAL);
    // A connection that is over already is no error: the peer may have been faster.
    if (call->disconnect(*id.connection, call.now) != 0) return 0;
  }
  return complete(id);
}

ROCI_EXPORT int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** out) {
  CmId& id = *from(listener);
  if (!id.is_sync) return fail(EINVAL);
  if (listener->event != nullptr) rdma_ack_cm_event(std::exchange(listener->event, nullptr));
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(listener->channel, &event) != 0) return -1;
  int error = event->status < 0 ? -event->status : event->status;
  if (error == 0 && event->event != RDMA_CM_EVENT_CONNECT_REQUEST) error = EINVAL;
  if (error == 0 && id.request_qp != nullptr) {
    ibv_qp_init_attr attr = *id.request_qp;
    event->id->srq = nullptr;
    // The device's own PD stands for none.
    ibv_pd* pd = listener->pd != nullptr ? listener->pd : event->id->pd;
    if (rdma_create_qp(event->id, pd, &attr) != 0) error = errno;
  }
  if (error != 0) {
    listener->event = event;
    return fail(error);
  }
  *out = event->id;
  (*out)->event = event;
  return 0;
}

ROCI_EXPORT int rdma_set_local_ece(rdma_cm_id*, ibv_ece*) { return 0; }

ROCI_EXPORT int rdma_get_remote_ece(rdma_cm_id*, ibv_ece* ece) {
  *ece = {};
  return 0;
}
