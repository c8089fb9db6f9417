// The limit: what the cable itself carries between two processes, with one copy and one CRC a side, as the stack must.
#pragma once

#include "stack/base/types.h"

namespace roci::bench {

/// Of the payload that the frames of RoCE MTU 4096 and 1024 and of an 8-byte write carry.
struct BareCable {
  double gbps_4154 = 0;
  double gbps_1082 = 0;
  double frames_per_s_82 = 0;
  double gbps_both_ways_4154 = 0;  ///< the sum of both ways at once
  double half_round_trip_us = 0;   ///< of an 82-byte frame
  // One core by itself.
  double copy_gb_per_s = 0;
  double crc_gb_per_s = 0;
  double core_gbps_4154 = 0;  ///< the payload of 4154-byte frames, copied and CRCed
};

/// Two processes on a cable of their own, each on a core if there are two; each figure is measured for `length`. Throws
/// Failure.
BareCable measure_bare_cable(Duration length);

}  // namespace roci::bench
