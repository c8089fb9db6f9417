// Completion queues, polled the plain way.
#include <algorithm>
#include <array>
#include <cerrno>

#include "verbs-shim/ibverbs/events.h"
#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {
namespace {

ShimCq* create(ibv_context* context, std::uint32_t entries, void* cq_context, ibv_comp_channel* channel,
               std::uint32_t vector) {
  if (is_detached(context)) return fail_with<ShimCq>(EIO);
  if (vector >= static_cast<std::uint32_t>(context->num_comp_vectors)) return fail_with<ShimCq>(EINVAL);
  if (channel != nullptr && channel->context != context) return fail_with<ShimCq>(EINVAL);
  auto* shim = new ShimCq{};
  if (const int error = device_of(context).create_cq(entries, shim, &shim->cq); error != 0) {
    delete shim;
    return fail_with<ShimCq>(error);
  }
  ibv_cq_ex& base = shim->base;
  base.context = context;
  base.channel = channel;
  base.cq_context = cq_context;
  base.cqe = static_cast<int>(shim->cq->capacity());
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  fill_extended_poll(&base);
  ++from(context)->objects;
  if (channel != nullptr) {
    pthread_mutex_lock(&context->mutex);
    ++channel->refcnt;
    pthread_mutex_unlock(&context->mutex);
  }
  return shim;
}

void translate(const Cqe& cqe, ibv_wc* wc) {
  wc->wr_id = cqe.wr_id;
  wc->status = static_cast<ibv_wc_status>(cqe.status);
  wc->opcode = static_cast<ibv_wc_opcode>(cqe.opcode);
  wc->vendor_err = 0;
  wc->byte_len = cqe.byte_len;
  wc->imm_data = cqe.imm_or_rkey;
  wc->qp_num = cqe.qpn.value;
  wc->src_qp = cqe.src_qpn.value;
  wc->wc_flags = cqe.flags;
  wc->pkey_index = 0;
  wc->slid = 0;
  wc->sl = cqe.sl;
  wc->dlid_path_bits = 0;
}

}  // namespace

int poll_cq(ibv_cq* base, int max_entries, ibv_wc* wc) {
  if (max_entries < 0) return -EINVAL;
  if (is_detached(base->context)) return -EIO;
  Cq& cq = *from(base)->cq;
  std::array<Cqe, 32> burst;
  int taken = 0;
  bool turned = false;
  while (taken < max_entries) {
    const std::size_t wanted = std::min<std::size_t>(burst.size(), static_cast<std::size_t>(max_entries - taken));
    const std::size_t count = cq.poll({burst.data(), wanted});
    for (std::size_t i = 0; i < count; ++i) translate(burst[i], &wc[taken++]);
    if (count == wanted) continue;
    // Nothing there: the caller's time is well spent on turning the worker, once.
    if (taken > 0 || turned) break;
    live_of(base->context).progress_polled();
    turned = true;
  }
  return taken;
}

int request_notify(ibv_cq* cq, int solicited_only) {
  if (is_detached(cq->context)) return EIO;
  from(cq)->cq->request_notify(solicited_only != 0);
  return 0;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  constexpr std::uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  // A promise of the client that needs nothing here.
  constexpr std::uint32_t kIgnoredFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  constexpr std::uint64_t kKnownFlags = std::uint64_t{IBV_WC_STANDARD_FLAGS} |
                                        std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} |
                                        std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
  if ((attr->comp_mask & ~kKnownMask) != 0) return fail_with<ibv_cq_ex>(EOPNOTSUPP);
  if ((attr->wc_flags & ~kKnownFlags) != 0) return fail_with<ibv_cq_ex>(EOPNOTSUPP);
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (attr->flags & ~kIgnoredFlags) != 0)
    return fail_with<ibv_cq_ex>(EOPNOTSUPP);
  // It is given for its allocator and its thread, of which a CQ here needs neither.
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
      (attr->parent_domain == nullptr || attr->parent_domain->context != context ||
       from(attr->parent_domain)->parent_of == nullptr))
    return fail_with<ibv_cq_ex>(EINVAL);
  ShimCq* shim = create(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
  return shim == nullptr ? nullptr : &shim->base;
}

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
                                  int vector) {
  if (entries < 1 || vector < 0) return fail_with<ibv_cq>(EINVAL);
  ShimCq* shim =
      create(context, static_cast<std::uint32_t>(entries), cq_context, channel, static_cast<std::uint32_t>(vector));
  return shim == nullptr ? nullptr : base_of(shim);
}

ROCI_EXPORT int ibv_resize_cq(ibv_cq* base, int entries) {
  if (is_detached(base->context)) return EIO;
  if (entries < 1) return EINVAL;
  ShimCq* shim = from(base);
  const int error = device_of(base->context).resize_cq(shim->cq, static_cast<std::uint32_t>(entries));
  if (error == 0) base->cqe = static_cast<int>(shim->cq->capacity());
  return error;
}

ROCI_EXPORT int ibv_destroy_cq(ibv_cq* base) {
  ShimCq* shim = from(base);
  ibv_context* context = base->context;
  if (!is_detached(context)) {
    if (shim->cq->users != 0) return EBUSY;
    if (base->channel != nullptr) from(base->channel)->events->purge([shim](ShimCq* event) { return event == shim; });
    from(context)->async_events->purge([shim](const roci::AsyncEvent& event) { return event.cq == shim->cq; });
    wait_for_acknowledgement(&base->mutex, &base->cond, &base->comp_events_completed,
                             &shim->completion_events_delivered);
    wait_for_acknowledgement(&base->mutex, &base->cond, &base->async_events_completed, &shim->async_events_delivered);
    if (const int error = device_of(context).destroy_cq(shim->cq); error != 0) return error;
  }
  if (base->channel != nullptr) {
    pthread_mutex_lock(&context->mutex);
    --base->channel->refcnt;
    pthread_mutex_unlock(&context->mutex);
  }
  --from(context)->objects;
  pthread_mutex_destroy(&base->mutex);
  pthread_cond_destroy(&base->cond);
  delete shim;
  return 0;
}
