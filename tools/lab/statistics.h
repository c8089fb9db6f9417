// How long flows took, by their size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/types.h"
#include "tools/lab/result.h"

namespace roci::lab {

/// Flows of more than `above_bytes` and up to `up_to_bytes`. Percentiles are by nearest rank. Of no flows: zeros.
struct SizeClass {
  std::string name;  ///< "all" or "<=10KB"
  std::uint64_t above_bytes = 0;
  std::uint64_t up_to_bytes = UINT64_MAX;
  std::uint64_t flows = 0;
  Duration mean{};  ///< of flow completion times (FCT), rounded down
  Duration p50{};
  Duration p95{};
  Duration p99{};
  Duration max{};
  double slowdown_mean = 0;  ///< FCT against that of the same flow alone in the network
  double slowdown_p50 = 0;
  double slowdown_p95 = 0;
  double slowdown_p99 = 0;
  double slowdown_max = 0;
};

/// Of the flows that were done and began at `from` or later: all of them, and then classes that have any.
std::vector<SizeClass> flow_completion_times(const std::vector<FlowResult>& flows, Instant from);

/// How much longer than alone; 0 if it is not done or has no bound.
double slowdown(const FlowResult& flow);

}  // namespace roci::lab
