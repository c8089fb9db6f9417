// The connection manager's library: its symbols are there, so that programs which link it start and can use verbs
// alone. Each function fails with ENOSYS.
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#define ROCI_EXPORT extern "C" __attribute__((visibility("default")))

// clang-format off
#define ROCI_RDMACM_STUBS(X) \
  X(raccept) \
  X(rbind) \
  X(rclose) \
  X(rconnect) \
  X(rdma_accept) \
  X(rdma_ack_cm_event) \
  X(rdma_bind_addr) \
  X(rdma_connect) \
  X(rdma_create_ep) \
  X(rdma_create_id) \
  X(rdma_create_qp) \
  X(rdma_create_qp_ex) \
  X(rdma_create_srq) \
  X(rdma_create_srq_ex) \
  X(rdma_destroy_id) \
  X(rdma_disconnect) \
  X(rdma_establish) \
  X(rdma_get_cm_event) \
  X(rdma_get_remote_ece) \
  X(rdma_get_request) \
  X(rdma_getaddrinfo) \
  X(rdma_init_qp_attr) \
  X(rdma_join_multicast) \
  X(rdma_join_multicast_ex) \
  X(rdma_leave_multicast) \
  X(rdma_listen) \
  X(rdma_migrate_id) \
  X(rdma_notify) \
  X(rdma_reject) \
  X(rdma_reject_ece) \
  X(rdma_resolve_addr) \
  X(rdma_resolve_route) \
  X(rdma_set_local_ece) \
  X(rdma_set_option) \
  X(rfcntl) \
  X(rgetpeername) \
  X(rgetsockname) \
  X(rgetsockopt) \
  X(riomap) \
  X(riounmap) \
  X(riowrite) \
  X(rlisten) \
  X(rpoll) \
  X(rread) \
  X(rreadv) \
  X(rrecv) \
  X(rrecvfrom) \
  X(rrecvmsg) \
  X(rselect) \
  X(rsend) \
  X(rsendmsg) \
  X(rsendto) \
  X(rsetsockopt) \
  X(rshutdown) \
  X(rsocket) \
  X(rwrite) \
  X(rwritev)
// clang-format on

/// Wide enough for int, ssize_t and off_t alike.
#define ROCI_RDMACM_STUB(name) \
  ROCI_EXPORT long name() { return errno = ENOSYS, -1; }
ROCI_RDMACM_STUBS(ROCI_RDMACM_STUB)
#undef ROCI_RDMACM_STUB

ROCI_EXPORT void* rdma_create_event_channel() { return errno = ENOSYS, nullptr; }
ROCI_EXPORT void rdma_destroy_event_channel(void*) {}
ROCI_EXPORT void rdma_destroy_ep(void*) {}
ROCI_EXPORT void rdma_destroy_qp(void*) {}
ROCI_EXPORT void rdma_destroy_srq(void*) {}
ROCI_EXPORT void rdma_freeaddrinfo(void*) {}
ROCI_EXPORT std::uint16_t rdma_get_src_port(void*) { return 0; }
ROCI_EXPORT std::uint16_t rdma_get_dst_port(void*) { return 0; }

/// No device takes connections yet: an empty list.
ROCI_EXPORT void** rdma_get_devices(int* count) {
  if (count != nullptr) *count = 0;
  return static_cast<void**>(std::calloc(1, sizeof(void*)));
}
ROCI_EXPORT void rdma_free_devices(void** list) { std::free(list); }

ROCI_EXPORT const char* rdma_event_str(int event) {
  static constexpr std::array<const char*, 16> kNames{
      "RDMA_CM_EVENT_ADDR_RESOLVED",  "RDMA_CM_EVENT_ADDR_ERROR",      "RDMA_CM_EVENT_ROUTE_RESOLVED",
      "RDMA_CM_EVENT_ROUTE_ERROR",    "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",  "RDMA_CM_EVENT_UNREACHABLE",     "RDMA_CM_EVENT_REJECTED",
      "RDMA_CM_EVENT_ESTABLISHED",    "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE",
      "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
  return event >= 0 && static_cast<std::size_t>(event) < kNames.size() ? kNames[static_cast<std::size_t>(event)]
                                                                       : "UNKNOWN EVENT";
}
