// The device of this process as the preloaded library sees it: through the function that the stack offers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "drivers/live/device_view.h"

namespace roci::redirect {

/// False if no device is open here. Any thread.
bool read_device(DeviceView* view);

/// Whether the program is to find the device's addresses among the kernel's: it has the connection manager's library,
/// and the link is no interface of the kernel's. On a cable, where an address is had by joining, opens the device. Any
/// thread; not from within the opening of a device on a cable.
bool shows_addresses();

// From the settings, also where no device is open.
std::string device_name();
/// Of the interface that the device is on, or else of one that stands for it: the device's own.
std::string interface_name();
/// if_nametoindex() of the kernel's own interfaces.
unsigned kernel_index(const char* name);

/// A counter that Linux has of every port, in terms of ours.
struct StandardCounter {
  const char* name;
  std::size_t index;      ///< in kCounterInfos
  std::uint64_t divisor;  ///< data is counted in words of 4 bytes
};

/// The number of counters if there is none of that name.
consteval std::size_t index_of(std::string_view name) {
  for (std::size_t i = 0; i < kCounterInfos.size(); ++i)
    if (kCounterInfos[i].name == name) return i;
  return kCounterInfos.size();
}

inline constexpr auto kStandardCounters = std::to_array<StandardCounter>({
    {"port_rcv_packets", index_of("rx_packets"), 1},
    {"port_rcv_data", index_of("rx_bytes"), 4},
    {"port_xmit_packets", index_of("tx_packets"), 1},
    {"port_xmit_data", index_of("tx_bytes"), 4},
    {"port_xmit_wait", index_of("tx_no_room"), 1},
    {"port_rcv_errors", index_of("rx_icrc_encapsulated"), 1},
});

static_assert(std::all_of(kStandardCounters.begin(), kStandardCounters.end(),
                          [](const StandardCounter& counter) { return counter.index < kCounterInfos.size(); }));

inline std::uint64_t value_of(const StandardCounter& counter, const DeviceView& view) {
  return view.counters[counter.index] / counter.divisor;
}

}  // namespace roci::redirect
