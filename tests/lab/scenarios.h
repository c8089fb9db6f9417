// Scenarios that tests start from.
#pragma once

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "cc/registry.h"
#include "tools/lab/scenario.h"

namespace roci::lab {

inline constexpr std::uint64_t kGbps = 1'000'000'000;

/// A star at 100 Gb/s with links of 1 us, lossless on priority 3, without congestion control.
inline Scenario star(std::uint32_t hosts) {
  Scenario scenario;
  scenario.topology = {.kind = fabric::TopologyKind::kStar, .hosts = hosts};
  scenario.fabric_switch.pfc = 1 << 3;
  HostSettings host;
  host.egress.pfc = 1 << 3;
  host.egress.marks_data = true;
  scenario.hosts.assign(hosts, host);
  return scenario;
}

inline void set_cc(Scenario& scenario, const std::string& text) {
  const Parsed<CcSpec> spec = parse_cc(text);
  if (!spec) throw std::invalid_argument(spec.wrong);
  for (HostSettings& host : scenario.hosts) {
    host.cc_text = text;
    host.cc = spec.value;
  }
}

/// Hosts 1 to `senders` to host 0.
inline Workload incast(std::uint32_t senders, std::uint64_t size_bytes = Workload::kUnbounded) {
  Workload workload{.kind = WorkloadKind::kIncast, .receiver = 0, .size_bytes = size_bytes};
  workload.senders.resize(senders);
  std::iota(workload.senders.begin(), workload.senders.end(), 1);
  return workload;
}

}  // namespace roci::lab
