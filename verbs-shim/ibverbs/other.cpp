// Symbols that clients import and that need little or nothing here.
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "verbs-shim/ibverbs/objects.h"

using namespace roci::shim;

/// Shared memory of ours survives a fork, and no page is pinned: there is nothing to prepare.
ROCI_EXPORT int ibv_fork_init() { return 0; }
ROCI_EXPORT ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
ROCI_EXPORT int ibv_dontfork_range(void*, std::size_t) { return 0; }
ROCI_EXPORT int ibv_dofork_range(void*, std::size_t) { return 0; }

ROCI_EXPORT const char* ibv_get_sysfs_path() { return "/sys"; }
ROCI_EXPORT int ibv_read_sysfs_file(const char*, const char*, char*, std::size_t) { return -1; }
ROCI_EXPORT int ibv_read_ibdev_sysfs_file(char*, std::size_t, void*, const char*, ...) { return -1; }

ROCI_EXPORT ibv_context* ibv_import_device(int) { return fail_with<ibv_context>(EOPNOTSUPP); }
ROCI_EXPORT ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t) { return fail_with<ibv_pd>(EOPNOTSUPP); }
ROCI_EXPORT void ibv_unimport_pd(ibv_pd*) {}
ROCI_EXPORT ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t) { return fail_with<ibv_mr>(EOPNOTSUPP); }
ROCI_EXPORT void ibv_unimport_mr(ibv_mr*) {}
ROCI_EXPORT ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t) { return fail_with<ibv_dm>(EOPNOTSUPP); }
ROCI_EXPORT void ibv_unimport_dm(ibv_dm*) {}

ROCI_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, std::uint8_t*, std::uint16_t*) {
  return errno = EOPNOTSUPP, -1;
}

// For a librdmacm that talks to the kernel; ours does not.
ROCI_EXPORT void ibv_copy_ah_attr_from_kern(void*, const void*) {}
ROCI_EXPORT void ibv_copy_qp_attr_from_kern(void*, const void*) {}
ROCI_EXPORT void ibv_copy_path_rec_from_kern(void*, const void*) {}
ROCI_EXPORT void ibv_copy_path_rec_to_kern(void*, const void*) {}
