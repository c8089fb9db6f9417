// Protection domains and memory regions.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {
namespace {

/// Access flags as the stack knows them. False for a flag that is neither known nor optional.
bool make_access(unsigned flags, std::uint32_t* access) {
  constexpr unsigned kIgnored = unsigned{IBV_ACCESS_HUGETLB} | unsigned{IBV_ACCESS_OPTIONAL_RANGE};
  constexpr unsigned kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                              IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED;
  if ((flags & ~(kKnown | kIgnored)) != 0) return false;
  *access = flags & kKnown;
  return true;
}

/// As /proc tells of the pages from `first` to `last`: all mapped, with these rights.
bool may_access(std::uintptr_t first, std::uintptr_t last, bool written) {
  FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return true;
  std::array<char, 512> line;
  std::uintptr_t seen = first;  // up to here all is well
  while (seen < last && std::fgets(line.data(), line.size(), maps) != nullptr) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::array<char, 5> rights{};
    if (std::sscanf(line.data(), "%zx-%zx %4s", &begin, &end, rights.data()) != 3 || end <= seen) continue;
    if (begin > seen || rights[0] != 'r' || (written && rights[1] != 'w')) break;
    seen = end;
  }
  std::fclose(maps);
  return seen >= last;
}

/// A region is of memory that is there and may be read, and written if the region's rights say so, as if its pages were
/// pinned: EFAULT otherwise, EINVAL if the range wraps. What is unmapped later is the copying's care.
int check_memory(void* addr, std::size_t length, std::uint32_t access) {
  const auto page_mask = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)) - 1;
  const auto first = reinterpret_cast<std::uintptr_t>(addr);
  if (first + length < first || first + length > UINTPTR_MAX - page_mask) return EINVAL;
  if (length == 0) return 0;
  const std::uintptr_t page = first & ~page_mask;
  const bool written = (access & kAccessLocalWrite) != 0;
  const std::size_t bytes = first + length - page;
  if (madvise(reinterpret_cast<void*>(page), bytes, written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0) return 0;
  // A kernel before 5.14 does not know that call, and none takes it for the memory of a device.
  return errno == EINVAL && may_access(first, first + length, written) ? 0 : EFAULT;
}

ibv_mr* register_memory(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, unsigned flags) {
  std::uint32_t access = 0;
  if (is_detached(pd->context)) return fail_with<ibv_mr>(EIO);
  if (!make_access(flags, &access)) return fail_with<ibv_mr>(EINVAL);
  if (const int error = check_memory(addr, length, access); error != 0) return fail_with<ibv_mr>(error);
  auto* shim = new ShimMr{};
  const int error = device_of(pd->context).reg_mr(from(pd)->pd, addr, length, iova, access, &shim->mr);
  if (error != 0) {
    delete shim;
    return fail_with<ibv_mr>(error);
  }
  shim->base = {.context = pd->context,
                .pd = pd,
                .addr = addr,
                .length = length,
                .handle = KeyTable::index_of(shim->mr->key),
                .lkey = shim->mr->key,
                .rkey = shim->mr->key};
  return &shim->base;
}

}  // namespace
}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (is_detached(context)) return fail_with<ibv_pd>(EIO);
  auto* shim = new ShimPd{};
  if (const int error = device_of(context).alloc_pd(&shim->pd); error != 0) {
    delete shim;
    return fail_with<ibv_pd>(error);
  }
  shim->base = {.context = context, .handle = shim->pd->handle};
  ++from(context)->objects;
  return &shim->base;
}

ROCI_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  if (from(pd)->parent_of != nullptr) return dealloc_parent_domain(from(pd));
  if (from(pd)->parent_domains != 0) return EBUSY;
  if (!is_detached(pd->context))
    if (const int error = device_of(pd->context).dealloc_pd(from(pd)->pd); error != 0) return error;
  --from(pd->context)->objects;
  delete from(pd);
  return 0;
}

ROCI_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, std::size_t length, int access) {
  return register_memory(pd, addr, length, reinterpret_cast<std::uintptr_t>(addr), static_cast<unsigned>(access));
}

ROCI_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
  return register_memory(pd, addr, length, iova, static_cast<unsigned>(access));
}

ROCI_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, unsigned access) {
  return register_memory(pd, addr, length, iova, access);
}

ROCI_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  return fail_with<ibv_mr>(EOPNOTSUPP);
}

ROCI_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access) {
  constexpr int kAll = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  std::uint32_t rights = 0;
  const bool pd_changes = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool rights_change = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  const auto refuse = [](int error) {
    errno = error;
    return IBV_REREG_MR_ERR_INPUT;
  };
  if (is_detached(mr->context)) return refuse(EIO);
  if (flags == 0 || (flags & ~kAll) != 0) return refuse(EINVAL);
  if (moves && (addr == nullptr || length == 0)) return refuse(EINVAL);
  if (pd_changes && (pd == nullptr || pd->context != mr->context)) return refuse(EINVAL);
  if (!rights_change && access != 0) return refuse(EINVAL);
  if (rights_change && !make_access(static_cast<unsigned>(access), &rights)) return refuse(EINVAL);
  const std::uint32_t rights_after = rights_change ? rights : from(mr)->mr->access;
  if (const int error = moves ? check_memory(addr, length, rights_after) : 0; error != 0) return refuse(error);
  const roci::MemoryRange range{addr, length, reinterpret_cast<std::uintptr_t>(addr)};
  const int error = device_of(mr->context)
                        .rereg_mr(from(mr)->mr, pd_changes ? from(pd)->pd : nullptr, moves ? &range : nullptr,
                                  rights_change ? &rights : nullptr);
  if (error != 0) return refuse(error);
  if (pd_changes) mr->pd = pd;
  if (moves) {
    mr->addr = addr;
    mr->length = length;
  }
  return 0;
}

ROCI_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  if (!is_detached(mr->context))
    if (const int error = device_of(mr->context).dereg_mr(from(mr)->mr); error != 0) return error;
  delete from(mr);
  return 0;
}
