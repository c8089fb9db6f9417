// What the machines of all QPs of one worker share: keys, counters, and where completions and events go.
#pragma once

#include <vector>

#include "cc/congestion_control.h"
#include "stack/base/counters.h"
#include "stack/base/types.h"
#include "stack/egress/settings.h"
#include "stack/mem/memory.h"
#include "stack/qp/window.h"
#include "stack/queues/completion_queue.h"
#include "stack/wire/address.h"
#include "stack/wire/route.h"

namespace roci {

class Qp;

/// Owner: whoever holds the worker's baton.
struct QpEnvironment {
  QpEnvironment(KeyTable& table, Counters& block, std::uint32_t number)
      : worker(number), keys(table), counters(block) {}

  const std::uint32_t worker;  ///< number of the worker, 0 for the first

  Instant now{};  ///< of the turn under way
  WindowPolicy window;
  CcSpec cc;
  CcPath cc_path;  ///< of a path as good as the port; MTU and headers are the QP's own
  egress::Settings egress;
  std::uint8_t active_mtu = 5;          ///< code of ibv_mtu: the longest datagram
  std::vector<IpAddress> gids;          ///< the port's
  RouteSource* route_source = nullptr;  ///< the port
  KeyTable& keys;                       ///< the device's
  Counters& counters;
  std::vector<Cq*> touched_cqs;    ///< got a CQE since the last delivery of events
  std::vector<Qp*> cnps;           ///< QPs that owe their peer a CNP, each once
  std::vector<AsyncEvent> events;  ///< raised since the last delivery of events

  /// Adds a CQE. A full CQ loses it: counted, the CQ's error event is raised once, and false.
  bool complete(Cq& cq, Cqe cqe) {
    cqe.timestamp_ns = static_cast<std::uint64_t>(now.ns());
    if (!cq.push(cqe, worker)) [[unlikely]] {
      ++counters.cq_overflow;
      if (cq.mark_overrun()) raise({.type = AsyncEventType::kCqErr, .cq = &cq});
      return false;
    }
    if (cq.mark_touched(worker)) touched_cqs.push_back(&cq);
    return true;
  }

  void raise(const AsyncEvent& event) {
    ++counters.async_events_raised;
    events.push_back(event);
  }
};

}  // namespace roci
