// The private interface between libibverbs and hardware providers. Clients load the provider libraries of Mellanox and
// Amazon, whose every symbol must resolve; no provider ever gets a device to drive.
#include <cerrno>

#include "verbs-shim/ibverbs/objects.h"

// clang-format off
#define ROCI_PRIVATE_STUBS(X) \
  X(execute_ioctl) \
  X(ibv_cmd_advise_mr) \
  X(ibv_cmd_alloc_dm) \
  X(ibv_cmd_alloc_mw) \
  X(ibv_cmd_alloc_pd) \
  X(ibv_cmd_attach_mcast) \
  X(ibv_cmd_close_xrcd) \
  X(ibv_cmd_create_ah) \
  X(ibv_cmd_create_counters) \
  X(ibv_cmd_create_cq) \
  X(ibv_cmd_create_cq_ex) \
  X(ibv_cmd_create_flow) \
  X(ibv_cmd_create_flow_action_esp) \
  X(ibv_cmd_create_qp) \
  X(ibv_cmd_create_qp_ex) \
  X(ibv_cmd_create_qp_ex2) \
  X(ibv_cmd_create_rwq_ind_table) \
  X(ibv_cmd_create_srq) \
  X(ibv_cmd_create_srq_ex) \
  X(ibv_cmd_create_wq) \
  X(ibv_cmd_dealloc_mw) \
  X(ibv_cmd_dealloc_pd) \
  X(ibv_cmd_dereg_mr) \
  X(ibv_cmd_destroy_ah) \
  X(ibv_cmd_destroy_counters) \
  X(ibv_cmd_destroy_cq) \
  X(ibv_cmd_destroy_flow) \
  X(ibv_cmd_destroy_flow_action) \
  X(ibv_cmd_destroy_qp) \
  X(ibv_cmd_destroy_rwq_ind_table) \
  X(ibv_cmd_destroy_srq) \
  X(ibv_cmd_destroy_wq) \
  X(ibv_cmd_detach_mcast) \
  X(ibv_cmd_free_dm) \
  X(ibv_cmd_get_context) \
  X(ibv_cmd_modify_cq) \
  X(ibv_cmd_modify_flow_action_esp) \
  X(ibv_cmd_modify_qp) \
  X(ibv_cmd_modify_qp_ex) \
  X(ibv_cmd_modify_srq) \
  X(ibv_cmd_modify_wq) \
  X(ibv_cmd_open_qp) \
  X(ibv_cmd_open_xrcd) \
  X(ibv_cmd_poll_cq) \
  X(ibv_cmd_post_recv) \
  X(ibv_cmd_post_send) \
  X(ibv_cmd_post_srq_recv) \
  X(ibv_cmd_query_context) \
  X(ibv_cmd_query_device_any) \
  X(ibv_cmd_query_mr) \
  X(ibv_cmd_query_port) \
  X(ibv_cmd_query_qp) \
  X(ibv_cmd_query_srq) \
  X(ibv_cmd_read_counters) \
  X(ibv_cmd_reg_dm_mr) \
  X(ibv_cmd_reg_dmabuf_mr) \
  X(ibv_cmd_reg_mr) \
  X(ibv_cmd_req_notify_cq) \
  X(ibv_cmd_rereg_mr) \
  X(ibv_cmd_resize_cq) \
  X(verbs_init_cq) \
  X(verbs_set_ops) \
  X(verbs_uninit_context)
// clang-format on

/// Called, if ever, with arguments that are of no interest: as many as the platform passes in registers may come.
#define ROCI_PRIVATE_STUB(name) \
  ROCI_EXPORT int name() { return errno = ENOSYS, ENOSYS; }
ROCI_PRIVATE_STUBS(ROCI_PRIVATE_STUB)
#undef ROCI_PRIVATE_STUB

ROCI_EXPORT void* _verbs_init_and_alloc_context() { return errno = ENOSYS, nullptr; }
ROCI_EXPORT void* verbs_open_device() { return errno = ENOSYS, nullptr; }

extern "C" {
/// The one variable among the functions.
__attribute__((visibility("default"))) extern const bool verbs_allow_disassociate_destroy;
const bool verbs_allow_disassociate_destroy = false;
}

/// Providers register themselves when they are loaded.
ROCI_EXPORT void verbs_register_driver_34(const void*) {}
ROCI_EXPORT void __verbs_log(const void*, unsigned, const char*, ...) {}
ROCI_EXPORT unsigned __ioctl_final_num_attrs(unsigned num_attrs, const void*) { return num_attrs; }
