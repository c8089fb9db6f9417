// Shared receive queues.
#include <cerrno>

#include "verbs-shim/ibverbs/events.h"
#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {
namespace {

ibv_srq* create(ibv_pd* pd, void* srq_context, ibv_srq_attr* attr) {
  if (is_detached(pd->context)) return fail_with<ibv_srq>(EIO);
  auto* shim = new ShimSrq{};
  // The limit is none of creation's business: programs leave anything there.
  const SrqInit init{.max_wr = attr->max_wr, .max_sge = attr->max_sge, .user = shim};
  if (const int error = device_of(pd->context).create_srq(from(pd)->pd, init, &shim->srq); error != 0) {
    delete shim;
    return fail_with<ibv_srq>(error);
  }
  shim->base.context = pd->context;
  shim->base.srq_context = srq_context;
  shim->base.pd = pd;
  pthread_mutex_init(&shim->base.mutex, nullptr);
  pthread_cond_init(&shim->base.cond, nullptr);
  attr->max_wr = shim->srq->queue.max_wr();
  attr->max_sge = shim->srq->queue.max_sge();
  return &shim->base;
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* attr) {
  constexpr std::uint32_t kKnown = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  if ((attr->comp_mask & ~kKnown) != 0 || (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0)
    return fail_with<ibv_srq>(EOPNOTSUPP);
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && attr->srq_type != IBV_SRQT_BASIC)
    return fail_with<ibv_srq>(EOPNOTSUPP);
  return create(attr->pd, attr->srq_context, &attr->attr);
}

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return create(pd, attr->srq_context, &attr->attr);
}

ROCI_EXPORT int ibv_modify_srq(ibv_srq* base, ibv_srq_attr* attr, int mask) {
  if (is_detached(base->context)) return EIO;
  if ((mask & ~(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR)) != 0) return EINVAL;
  if ((mask & IBV_SRQ_MAX_WR) != 0) return EOPNOTSUPP;
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  return device_of(base->context).modify_srq(from(base)->srq, attr->srq_limit);
}

ROCI_EXPORT int ibv_query_srq(ibv_srq* base, ibv_srq_attr* attr) {
  if (is_detached(base->context)) return EIO;
  roci::Srq* srq = from(base)->srq;
  attr->max_wr = srq->queue.max_wr();
  attr->max_sge = srq->queue.max_sge();
  attr->srq_limit = device_of(base->context).query_srq_limit(srq);
  return 0;
}

ROCI_EXPORT int ibv_destroy_srq(ibv_srq* base) {
  ShimSrq* shim = from(base);
  if (!is_detached(base->context)) {
    if (shim->srq->users != 0) return EBUSY;
    from(base->context)->async_events->purge([shim](const roci::AsyncEvent& event) { return event.srq == shim->srq; });
    wait_for_acknowledgement(&base->mutex, &base->cond, &base->events_completed, &shim->async_events_delivered);
    if (const int error = device_of(base->context).destroy_srq(shim->srq); error != 0) return error;
  }
  pthread_mutex_destroy(&base->mutex);
  pthread_cond_destroy(&base->cond);
  delete shim;
  return 0;
}
