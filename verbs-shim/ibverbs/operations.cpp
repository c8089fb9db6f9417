// The tables of a context. No slot is ever null: what is not there answers EOPNOTSUPP.
#include "verbs-shim/ibverbs/operations.h"

#include <cerrno>
#include <type_traits>

namespace roci::shim {
namespace {

/// A function of whatever type the slot has, that fails as verbs says: an errno value, or null with errno.
template <class Function>
struct Unsupported;

template <class Result, class... Arguments>
struct Unsupported<Result (*)(Arguments...)> {
  static Result call(Arguments...) {
    if constexpr (std::is_pointer_v<Result>) {
      errno = EOPNOTSUPP;
      return nullptr;
    } else if constexpr (!std::is_void_v<Result>) {
      return EOPNOTSUPP;
    }
  }
};

template <class... Slots>
void fill_unsupported(Slots&... slots) {
  ((slots = Unsupported<Slots>::call), ...);
}

void fill_data_path(ibv_context_ops* ops) {
  fill_unsupported(ops->_compat_query_device, ops->_compat_query_port, ops->_compat_alloc_pd, ops->_compat_dealloc_pd,
                   ops->_compat_reg_mr, ops->_compat_rereg_mr, ops->_compat_dereg_mr, ops->_compat_create_cq,
                   ops->_compat_cq_event, ops->_compat_resize_cq, ops->_compat_destroy_cq, ops->_compat_create_srq,
                   ops->_compat_modify_srq, ops->_compat_query_srq, ops->_compat_destroy_srq, ops->_compat_create_qp,
                   ops->_compat_query_qp, ops->_compat_modify_qp, ops->_compat_destroy_qp, ops->_compat_create_ah,
                   ops->_compat_destroy_ah, ops->_compat_attach_mcast, ops->_compat_detach_mcast,
                   ops->_compat_async_event);
  ops->_compat_query_device = ibv_query_device;
  ops->_compat_query_port = ibv_query_port;
  ops->alloc_mw = alloc_mw;
  ops->bind_mw = bind_mw;
  ops->dealloc_mw = dealloc_mw;
  ops->poll_cq = poll_cq;
  ops->req_notify_cq = request_notify;
  ops->post_send = post_send;
  ops->post_recv = post_recv;
  ops->post_srq_recv = post_srq_recv;
}

}  // namespace

void fill_operations(verbs_context* verbs) {
  fill_data_path(&verbs->context.ops);
  fill_unsupported(verbs->advise_mr, verbs->alloc_null_mr, verbs->read_counters, verbs->attach_counters_point_flow,
                   verbs->create_counters, verbs->destroy_counters, verbs->reg_dm_mr, verbs->alloc_dm, verbs->free_dm,
                   verbs->modify_flow_action_esp, verbs->destroy_flow_action, verbs->create_flow_action_esp,
                   verbs->modify_qp_rate_limit, verbs->modify_cq, verbs->post_srq_ops, verbs->destroy_rwq_ind_table,
                   verbs->create_rwq_ind_table, verbs->destroy_wq, verbs->modify_wq, verbs->create_wq,
                   verbs->ibv_destroy_flow, verbs->ABI_placeholder2, verbs->ibv_create_flow, verbs->ABI_placeholder1,
                   verbs->open_qp, verbs->get_srq_num, verbs->open_xrcd, verbs->close_xrcd);
  verbs->alloc_td = alloc_td;
  verbs->dealloc_td = dealloc_td;
  verbs->alloc_parent_domain = alloc_parent_domain;
  verbs->query_port = query_port;
  verbs->query_rt_values = query_rt_values;
  verbs->create_cq_ex = create_cq_ex;
  verbs->query_device_ex = query_device_ex;
  verbs->create_qp_ex = create_qp_ex;
  verbs->create_srq_ex = create_srq_ex;
}

}  // namespace roci::shim
