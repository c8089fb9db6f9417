// What the machines of all QPs of one worker share: keys, counters, and where completions and events go.
#pragma once

#include <vector>

#include "stack/base/counters.h"
#include "stack/base/types.h"
#include "stack/mem/memory.h"
#include "stack/qp/window.h"
#include "stack/queues/completion_queue.h"

namespace roci {

/// Owner: whoever holds the baton.
struct QpEnvironment {
  explicit QpEnvironment(Counters& block) : counters(block) {}

  Instant now{};  ///< of the turn under way
  WindowPolicy window;
  MrTable mrs;
  Counters& counters;
  std::vector<Cq*> touched_cqs;    ///< got a CQE since the last delivery of events
  std::vector<AsyncEvent> events;  ///< raised since the last delivery of events

  /// Adds a CQE. A full CQ loses it: counted, the CQ's error event is raised once, and false.
  bool complete(Cq& cq, Cqe cqe) {
    cqe.timestamp_ns = static_cast<std::uint64_t>(now.ns());
    if (!cq.push(cqe)) [[unlikely]] {
      ++counters.cq_overflow;
      if (!std::exchange(cq.overrun, true)) raise({.type = AsyncEventType::kCqErr, .cq = &cq});
      return false;
    }
    if (cq.mark_touched()) touched_cqs.push_back(&cq);
    return true;
  }

  void raise(const AsyncEvent& event) {
    ++counters.async_events_raised;
    events.push_back(event);
  }
};

}  // namespace roci
