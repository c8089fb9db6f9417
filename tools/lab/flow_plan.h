// From workloads to flows: who sends how much to whom, and when or after what.
#pragma once

#include <cstdint>
#include <vector>

#include "stack/base/types.h"
#include "tools/lab/scenario.h"

namespace roci::lab {

struct PlannedFlow {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint64_t bytes = 0;           ///< Workload::kUnbounded: for ever
  Instant start{};                   ///< not before
  std::vector<std::uint32_t> after;  ///< flows that must have been received before
};

/// In the order of the workloads; a flow is after earlier ones only. The same for the same scenario and seed.
std::vector<PlannedFlow> plan_flows(const Scenario& scenario);

}  // namespace roci::lab
