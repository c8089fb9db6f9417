// What an end of a cable counts, in one table.
#pragma once

#include <array>
#include <cstdint>

#include "stack/base/counters.h"

namespace roci {

// clang-format off
#define ROCI_CABLE_COUNTERS(X) \
  X(cable_rx_frames, "frames taken from rings") \
  X(cable_tx_frames, "frames put into rings") \
  X(cable_tx_no_peer_drops, "frames dropped: nobody has the destination's address") \
  X(cable_tx_group_drops, "copies of multicast frames dropped: their receiver takes nothing any more") \
  X(cable_tx_ring_full, "times a ring had no room: the sender waits") \
  X(cable_rx_bad_slot, "rings given up: a slot made no sense") \
  X(cable_tx_bad_peer, "rings given up: the peer told of frames never sent") \
  X(cable_no_memory, "rings that could not be made: no shared memory left") \
  X(cable_doorbells, "sleeping or absent peers woken") \
  X(cable_peers_attached, "peers that a ring was opened with") \
  X(cable_peers_lost, "peers that left or died")
// clang-format on

/// Owner: whoever holds the worker's baton; read by anybody.
struct CableCounters {
#define ROCI_CABLE_COUNTER_FIELD(name, description) std::uint64_t name = 0;
  ROCI_CABLE_COUNTERS(ROCI_CABLE_COUNTER_FIELD)
#undef ROCI_CABLE_COUNTER_FIELD
};

inline constexpr auto kCableCounterInfos = std::to_array<CounterInfo>({
#define ROCI_CABLE_COUNTER_ROW(name, description) {#name, description},
    ROCI_CABLE_COUNTERS(ROCI_CABLE_COUNTER_ROW)
#undef ROCI_CABLE_COUNTER_ROW
});
static_assert(sizeof(CableCounters) == kCableCounterInfos.size() * sizeof(std::uint64_t));

}  // namespace roci
