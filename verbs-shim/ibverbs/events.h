// From the stack's events to the queues of the clients that they are for.
#pragma once

#include "verbs-shim/ibverbs/objects.h"

namespace roci::shim {

/// The one sink of this process.
EventSink& event_sink();

/// Contexts that hear of events of the port.
void add_context(ShimContext* context);
void remove_context(ShimContext* context);

std::uint64_t device_guid(ibv_device* device);

/// Waits until as many events as were delivered have been acknowledged.
void wait_for_acknowledgement(pthread_mutex_t* mutex, pthread_cond_t* cond, const std::uint32_t* completed,
                              const std::uint32_t* delivered);
void acknowledge(pthread_mutex_t* mutex, pthread_cond_t* cond, std::uint32_t* completed, std::uint32_t count);

}  // namespace roci::shim
