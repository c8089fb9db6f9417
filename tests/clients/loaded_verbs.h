// libibverbs as collective libraries take it: not linked, but loaded, each function by its name and version. Of the
// header only structures and the functions that go through a context are used.
#pragma once

#include <infiniband/verbs.h>

// The header makes macros of functions that are fetched here.
#undef ibv_query_port
#undef ibv_reg_mr

namespace allreduce {

/// What such a library cannot do without, all of version IBVERBS_1.1.
#define ALLREDUCE_FUNCTIONS(X)                                                  \
  X(ibv_get_device_list, ibv_device**, (int*))                                  \
  X(ibv_free_device_list, void, (ibv_device**))                                 \
  X(ibv_get_device_name, const char*, (ibv_device*))                            \
  X(ibv_open_device, ibv_context*, (ibv_device*))                               \
  X(ibv_close_device, int, (ibv_context*))                                      \
  X(ibv_get_async_event, int, (ibv_context*, ibv_async_event*))                 \
  X(ibv_ack_async_event, void, (ibv_async_event*))                              \
  X(ibv_query_device, int, (ibv_context*, ibv_device_attr*))                    \
  X(ibv_query_port, int, (ibv_context*, uint8_t, ibv_port_attr*))               \
  X(ibv_query_gid, int, (ibv_context*, uint8_t, int, ibv_gid*))                 \
  X(ibv_query_qp, int, (ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*))         \
  X(ibv_alloc_pd, ibv_pd*, (ibv_context*))                                      \
  X(ibv_dealloc_pd, int, (ibv_pd*))                                             \
  X(ibv_reg_mr, ibv_mr*, (ibv_pd*, void*, size_t, int))                         \
  X(ibv_dereg_mr, int, (ibv_mr*))                                               \
  X(ibv_create_cq, ibv_cq*, (ibv_context*, int, void*, ibv_comp_channel*, int)) \
  X(ibv_destroy_cq, int, (ibv_cq*))                                             \
  X(ibv_create_qp, ibv_qp*, (ibv_pd*, ibv_qp_init_attr*))                       \
  X(ibv_modify_qp, int, (ibv_qp*, ibv_qp_attr*, int))                           \
  X(ibv_destroy_qp, int, (ibv_qp*))                                             \
  X(ibv_fork_init, int, (void))                                                 \
  X(ibv_event_type_str, const char*, (ibv_event_type))

struct LoadedVerbs {
#define ALLREDUCE_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  ALLREDUCE_FUNCTIONS(ALLREDUCE_MEMBER)
#undef ALLREDUCE_MEMBER
  // Null where the library has none.
  ibv_mr* (*ibv_reg_mr_iova2)(ibv_pd*, void*, size_t, uint64_t, unsigned) = nullptr;
  ibv_mr* (*ibv_reg_dmabuf_mr)(ibv_pd*, uint64_t, size_t, uint64_t, int, int) = nullptr;
  int (*ibv_query_ece)(ibv_qp*, ibv_ece*) = nullptr;
  int (*ibv_set_ece)(ibv_qp*, ibv_ece*) = nullptr;
};

/// Prints what went wrong, with errno, and ends the process with status 1.
[[noreturn]] void fail(const char* what);
/// fail() unless `good`.
void require(bool good, const char* what);

/// libibverbs.so, else libibverbs.so.1. Fails if there is none, or it lacks a function.
LoadedVerbs load_verbs();
/// Loads libmlx5 if there is one, and asks it whether the device is its own.
bool is_of_mlx5(ibv_device* device);

}  // namespace allreduce
