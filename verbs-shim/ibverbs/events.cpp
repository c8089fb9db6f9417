// Completion channels, asynchronous events, and their acknowledgement.
#include "verbs-shim/ibverbs/events.h"

#include <algorithm>
#include <cerrno>
#include <vector>

namespace roci::shim {
namespace {

pthread_mutex_t contexts_mutex = PTHREAD_MUTEX_INITIALIZER;
std::vector<ShimContext*>& contexts() {
  static auto* list = new std::vector<ShimContext*>;
  return *list;
}

ibv_context* context_of(const AsyncEvent& event) {
  if (event.qp != nullptr) return static_cast<ShimQp*>(event.qp->user())->base.qp_base.context;
  if (event.cq != nullptr) return static_cast<ShimCq*>(event.cq->user())->base.context;
  if (event.srq != nullptr) return static_cast<ShimSrq*>(event.srq->user())->base.context;
  return nullptr;
}

class Sink : public EventSink {
 public:
  void on_completion_event(Cq& cq) override {
    auto* shim = static_cast<ShimCq*>(cq.user());
    if (shim->base.channel != nullptr) from(shim->base.channel)->events->push(shim);
  }
  void on_async_event(const AsyncEvent& event) override {
    if (ibv_context* context = context_of(event)) return from(context)->async_events->push(event);
    pthread_mutex_lock(&contexts_mutex);
    // A parent's contexts are in a child's list too.
    for (ShimContext* context : contexts())
      if (!is_detached(&context->verbs.context)) context->async_events->push(event);
    pthread_mutex_unlock(&contexts_mutex);
  }
};

/// The client may destroy the object only once it has acknowledged the event: counted here, under the queue's lock.
void count_delivery(const AsyncEvent& event) {
  if (event.qp != nullptr) ++static_cast<ShimQp*>(event.qp->user())->async_events_delivered;
  if (event.cq != nullptr) ++static_cast<ShimCq*>(event.cq->user())->async_events_delivered;
  if (event.srq != nullptr) ++static_cast<ShimSrq*>(event.srq->user())->async_events_delivered;
}

}  // namespace

EventSink& event_sink() {
  static auto* sink = new Sink;
  return *sink;
}

void add_context(ShimContext* context) {
  pthread_mutex_lock(&contexts_mutex);
  contexts().push_back(context);
  pthread_mutex_unlock(&contexts_mutex);
}

void remove_context(ShimContext* context) {
  pthread_mutex_lock(&contexts_mutex);
  std::erase(contexts(), context);
  pthread_mutex_unlock(&contexts_mutex);
}

void wait_for_acknowledgement(pthread_mutex_t* mutex, pthread_cond_t* cond, const std::uint32_t* completed,
                              const std::uint32_t* delivered) {
  pthread_mutex_lock(mutex);
  while (*completed != *delivered) pthread_cond_wait(cond, mutex);
  pthread_mutex_unlock(mutex);
}

void acknowledge(pthread_mutex_t* mutex, pthread_cond_t* cond, std::uint32_t* completed, std::uint32_t count) {
  pthread_mutex_lock(mutex);
  *completed += count;
  pthread_cond_signal(cond);
  pthread_mutex_unlock(mutex);
}

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (is_detached(context)) return fail_with<ibv_comp_channel>(EIO);
  auto* channel = new ShimChannel{};
  channel->events = new EventQueue<ShimCq*>;
  if (channel->events->fd() < 0) {
    const int error = errno;
    delete channel->events;
    delete channel;
    return fail_with<ibv_comp_channel>(error);
  }
  channel->base.context = context;
  channel->base.fd = channel->events->fd();
  return &channel->base;
}

ROCI_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* base) {
  ibv_context* context = base->context;
  pthread_mutex_lock(&context->mutex);
  const bool in_use = base->refcnt != 0;
  pthread_mutex_unlock(&context->mutex);
  if (in_use) return EBUSY;
  ShimChannel* channel = from(base);
  delete channel->events;
  delete channel;
  return 0;
}

ROCI_EXPORT int ibv_get_cq_event(ibv_comp_channel* base, ibv_cq** cq, void** cq_context) {
  if (is_detached(base->context)) return errno = EIO, -1;
  ShimCq* shim = nullptr;
  const auto count = [](ShimCq* event) { ++event->completion_events_delivered; };
  if (!from(base)->events->take(&shim, count)) return -1;
  *cq = base_of(shim);
  *cq_context = shim->base.cq_context;
  return 0;
}

ROCI_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  acknowledge(&cq->mutex, &cq->cond, &cq->comp_events_completed, count);
}

ROCI_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* out) {
  if (is_detached(context)) return errno = EIO, -1;
  roci::AsyncEvent event{};
  if (!from(context)->async_events->take(&event, count_delivery)) return -1;
  *out = {};
  out->event_type = static_cast<ibv_event_type>(event.type);
  if (event.qp != nullptr)
    out->element.qp = &static_cast<ShimQp*>(event.qp->user())->base.qp_base;
  else if (event.cq != nullptr)
    out->element.cq = base_of(static_cast<ShimCq*>(event.cq->user()));
  else if (event.srq != nullptr)
    out->element.srq = &static_cast<ShimSrq*>(event.srq->user())->base;
  else
    out->element.port_num = 1;
  return 0;
}

ROCI_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq* cq = event->element.cq;
      return acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp* qp = event->element.qp;
      return acknowledge(&qp->mutex, &qp->cond, &qp->events_completed, 1);
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq* srq = event->element.srq;
      return acknowledge(&srq->mutex, &srq->cond, &srq->events_completed, 1);
    }
    default:
      return;
  }
}
