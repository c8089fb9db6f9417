// An experiment as its author wrote it: topology, switches, hosts, workload, and how long. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cc/congestion_control.h"
#include "drivers/fabric/switch.h"
#include "drivers/fabric/topology.h"
#include "drivers/faults/fault_script.h"
#include "stack/base/types.h"
#include "stack/egress/settings.h"

namespace roci::lab {

/// [host], and what [[host_override]] changes of it.
struct HostSettings {
  std::string cc_text = "none";  ///< as `--cc` takes it
  CcSpec cc;
  std::uint32_t mtu_bytes = 1024;
  std::uint32_t qps_per_flow = 1;
  std::uint32_t window_packets = 65'536;  ///< that a QP may have outstanding; far more than a path holds
  std::uint32_t ack_every_packets = 32;
  std::uint32_t message_bytes = 1 << 18;  ///< a longer flow is a row of RDMA WRITEs of this size
  std::uint8_t timeout = 14;              ///< local ACK timeout: 4.096 us x 2^timeout
  std::uint8_t retry_cnt = 7;
  egress::Settings egress;
};

enum class WorkloadKind : std::uint8_t {
  kIncast,
  kPermutation,
  kAllToAll,
  kAllreduceRing,
  kAllreduceTree,
  kPoisson,
  kFlows,
};

/// A flow of a list.
struct ListedFlow {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint64_t bytes = 0;
  Instant start{};
};

/// A row of a flow-size distribution: with `probability`, a flow has at most `bytes`.
struct CdfPoint {
  std::uint64_t bytes = 0;
  double probability = 0;
};

/// [[workload]].
struct Workload {
  static constexpr std::uint64_t kUnbounded = 0;

  WorkloadKind kind = WorkloadKind::kIncast;
  std::uint32_t receiver = 0;             ///< incast
  std::vector<std::uint32_t> senders;     ///< incast
  std::vector<std::uint32_t> hosts;       ///< the others but flows; empty: all
  std::uint64_t size_bytes = kUnbounded;  ///< of a flow; of the vector of an all-reduce
  Instant start{};
  Duration stagger{};             ///< each next flow of an incast starts so much later
  double load = 0;                ///< poisson: part of the hosts' link rate
  std::vector<CdfPoint> cdf;      ///< poisson
  std::vector<ListedFlow> flows;  ///< flows
};

/// A fault script on the links of some hosts.
struct LinkFaults {
  FaultScript script;
  std::vector<std::uint32_t> hosts;
};

struct Scenario {
  std::string name;  ///< its file's name
  fabric::TopologyConfig topology;
  fabric::SwitchConfig fabric_switch;
  std::vector<HostSettings> hosts;  ///< one for each host
  std::vector<Workload> workloads;
  std::vector<LinkFaults> faults;
  Duration duration = milliseconds(10);  ///< until then at most
  bool until_done = false;               ///< ends when all flows are done
  Duration warmup{};                     ///< left out of the statistics
  std::uint64_t seed = 1;
  Duration sample_interval{};  ///< of time series; 0: none
  fabric::Payload payload = fabric::Payload::kCarried;
};

}  // namespace roci::lab
