// The limit: what the cable itself carries between two processes, with one copy and one CRC a side, as the stack must.
#pragma once

#include <cstdint>

#include "stack/base/types.h"

namespace roci::bench {

/// What two ends of a cable do with frames of one size.
struct CableTest {
  enum class Kind { kOneWay, kBothWays, kPingPong };
  Kind kind;
  std::uint32_t frame_bytes;
};

struct CableFigures {
  double frames_per_s = 0;        ///< received, by both ends together; of a ping-pong 0
  double half_round_trip_us = 0;  ///< of a ping-pong
};

/// Two processes on a cable of their own, each on a core if there are two, for `length`. Throws Failure.
CableFigures measure_bare_cable(const CableTest& test, Duration length);

/// The payload of so many frames a second.
double payload_gbps(double frames_per_s, std::uint32_t frame_bytes);

/// One core by itself, with payloads of 4 KiB.
struct OneCore {
  double copy_gb_per_s = 0;
  double crc_gb_per_s = 0;
  double gbps_4154 = 0;  ///< the payload of 4154-byte frames, copied and CRCed
};
OneCore measure_one_core(Duration length);

}  // namespace roci::bench
