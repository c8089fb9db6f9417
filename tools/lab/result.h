// What came out of an experiment.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "stack/base/types.h"

namespace roci::lab {

struct FlowResult {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint64_t bytes = 0;  ///< of a flow without bound: what was delivered after the warm-up
  bool unbounded = false;
  Instant start{};
  Instant end = kNever;  ///< its last byte was acknowledged; kNever: not done
  Duration ideal{};      ///< FCT alone in the network; 0 for a flow without bound
  std::uint64_t goodput_bps =
      0;  ///< payload delivered to memory per second, of the time after the warm-up in which it ran
  std::uint64_t retransmitted_packets = 0;
  bool failed = false;  ///< a work request ended in an error

  bool done() const { return end != kNever; }
};

/// Of one priority of one egress port that ever held a frame.
struct QueueResult {
  std::string node;  ///< "switch0"
  std::uint32_t port = 0;
  std::uint32_t priority = 0;
  double mean_bytes = 0;  ///< weighted by time
  std::uint64_t p99_bytes = 0;
  std::uint64_t max_bytes = 0;
};

/// One row of the time series, of everything at one instant.
struct Sample {
  Instant at{};
  std::vector<std::uint64_t> rate_bps;     ///< of each flow that was asked for, by congestion control
  std::vector<std::uint64_t> goodput_bps;  ///< of each flow since the row before
  std::vector<std::uint64_t> queue_bytes;  ///< of each queue of the result
};

struct Totals {
  std::uint64_t goodput_bps = 0;
  double jain = 0;  ///< of the goodputs of flows without bound, or of all flows if there are none
  std::uint64_t marks = 0;
  std::uint64_t cnps = 0;
  std::uint64_t pfc_pauses = 0;
  Duration paused{};  ///< all ports and priorities together
  std::uint64_t drops = 0;
  std::vector<std::pair<std::string, std::uint64_t>> drops_by_reason;
  std::uint64_t events = 0;       ///< of the simulation
  std::uint64_t packet_hops = 0;  ///< data packets times the links that they crossed
  std::uint64_t retransmitted_packets = 0;
  std::uint64_t damaged_bytes = 0;  ///< of what the receivers' memory holds in the end, wrong
};

struct Result {
  std::vector<FlowResult> flows;
  std::vector<QueueResult> queues;
  std::vector<Sample> samples;
  Totals total;
  Instant ended{};    ///< virtual time
  double wall_s = 0;  ///< real time; never part of what is compared
};

}  // namespace roci::lab
