// What an ethdev port counts, in one table.
#pragma once

#include <array>
#include <cstdint>

#include "stack/base/counters.h"

namespace roci {

// clang-format off
#define ROCI_DPDK_COUNTERS(X) \
  X(port_rx_frames, "frames taken from the device") \
  X(port_tx_frames, "frames given to the device") \
  X(port_self_frames, "frames from this device to itself") \
  X(port_tx_unresolved_drops, "frames dropped: the next hop's MAC address is not known") \
  X(port_tx_full, "times the device took less than it was given: the sender waits") \
  X(port_no_buffers, "times there was no buffer for a frame to send: the sender waits") \
  X(port_rx_arp, "ARP frames, where no kernel takes them") \
  X(port_rx_discovery, "IPv6 neighbour discovery messages, where no kernel takes them") \
  X(port_rx_echo, "pings that the port answered") \
  X(port_rx_bad_neighbour, "malformed ARP, ICMP and neighbour discovery packets: dropped") \
  X(port_address_conflicts, "times another device said that it has one of the port's addresses") \
  X(port_answer_drops, "answers to ARP, neighbour discovery and ping that there was no room for") \
  X(port_kernel_changes, "times the kernel told of a change of addresses, routes, neighbours or the interface")
// clang-format on

/// Owner: whoever holds the worker's baton; read by anybody.
struct DpdkCounters {
#define ROCI_DPDK_COUNTER_FIELD(name, description) std::uint64_t name = 0;
  ROCI_DPDK_COUNTERS(ROCI_DPDK_COUNTER_FIELD)
#undef ROCI_DPDK_COUNTER_FIELD
};

inline constexpr auto kDpdkCounterInfos = std::to_array<CounterInfo>({
#define ROCI_DPDK_COUNTER_ROW(name, description) {#name, description},
    ROCI_DPDK_COUNTERS(ROCI_DPDK_COUNTER_ROW)
#undef ROCI_DPDK_COUNTER_ROW
});
static_assert(sizeof(DpdkCounters) == kDpdkCounterInfos.size() * sizeof(std::uint64_t));

}  // namespace roci
