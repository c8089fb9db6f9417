// The keys of a scenario whose meaning depends on nothing but their own value.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/base/units.h"
#include "tools/lab/scenario.h"

namespace roci::lab {

/// A key of a table that is read into a `T`.
template <class T>
struct Key {
  std::string_view name;
  /// What is wrong with `value`; empty if nothing is, and then it is set.
  std::function<std::string(std::string_view value, T* target)> set;
};

const std::vector<Key<fabric::TopologyConfig>>& topology_keys();
const std::vector<Key<fabric::SwitchConfig>>& switch_keys();
const std::vector<Key<HostSettings>>& host_keys();
const std::vector<Key<Scenario>>& run_keys();

/// A key of [[workload]], which only some kinds have.
struct WorkloadKey : Key<Workload> {
  std::vector<WorkloadKind> kinds;
  bool needed = false;  ///< of these kinds

  bool belongs_to(WorkloadKind kind) const;
};

/// All but `kind`, `cdf` and `file`.
const std::vector<WorkloadKey>& workload_keys();
/// "incast" and the others.
std::string set_workload_kind(std::string_view value, Workload* workload);
std::string_view name_of(WorkloadKind kind);

/// Numbers of hosts, as in 0-7,9; each once.
Parsed<std::vector<std::uint32_t>> parse_hosts(std::string_view text);

}  // namespace roci::lab
