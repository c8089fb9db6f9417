// Thread domains and parent domains.
#include <cerrno>

#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  if (is_detached(context)) return fail_with<ibv_td>(EIO);
  if (attr->comp_mask != 0) return fail_with<ibv_td>(EINVAL);
  auto* shim = new ShimTd{};
  shim->base.context = context;
  ++from(context)->objects;
  return &shim->base;
}

int dealloc_td(ibv_td* td) {
  if (from(td)->parent_domains != 0) return EBUSY;
  --from(td->context)->objects;
  delete from(td);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  // Queues here are not made of the client's memory: its allocator is asked for nothing, as it may be.
  constexpr std::uint32_t kKnownMask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (is_detached(context)) return fail_with<ibv_pd>(EIO);
  if ((attr->comp_mask & ~kKnownMask) != 0 || attr->pd == nullptr || attr->pd->context != context)
    return fail_with<ibv_pd>(EINVAL);
  if (from(attr->pd)->parent_of != nullptr || (attr->td != nullptr && attr->td->context != context))
    return fail_with<ibv_pd>(EINVAL);
  if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0 &&
      (attr->alloc == nullptr || attr->free == nullptr))
    return fail_with<ibv_pd>(EINVAL);
  auto* shim = new ShimPd{};
  shim->base = {.context = context, .handle = attr->pd->handle};
  shim->pd = from(attr->pd)->pd;
  shim->parent_of = from(attr->pd);
  ++shim->parent_of->parent_domains;
  if (attr->td != nullptr) {
    shim->td = from(attr->td);
    ++shim->td->parent_domains;
  }
  ++from(context)->objects;
  return &shim->base;
}

int dealloc_parent_domain(ShimPd* domain) {
  --domain->parent_of->parent_domains;
  if (domain->td != nullptr) --domain->td->parent_domains;
  --from(domain->base.context)->objects;
  delete domain;
  return 0;
}

}  // namespace roci::shim
