// Runs a scenario: whole stacks with real work requests, memory and packets, joined by the simulated fabric.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "drivers/sim/fabric_link.h"
#include "stack/base/types.h"
#include "tools/lab/result.h"
#include "tools/lab/scenario.h"

namespace roci::sim {
class FabricNetwork;
}

namespace roci::lab {

struct RunOptions {
  /// Called now and then: virtual time, its end, data packets times links so far.
  std::function<void(Instant now, Instant end, std::uint64_t packet_hops)> progress;
  /// Called before the first frame: to put observers on links.
  std::function<void(sim::FabricNetwork& network)> prepare;
};

/// The scenario has passed its reader. The same scenario gives the same result but for wall_s.
Result run(const Scenario& scenario, const RunOptions& options = {});

}  // namespace roci::lab
