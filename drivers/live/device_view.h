// What the open device looks like, for the preloaded library, which shows it as the files that Linux has of a
// device. That library is in every program, this stack only in those that open a device; so the stack offers a
// function to it when it opens one.
#pragma once

#include <array>
#include <cstdint>

#include "stack/base/counters.h"
#include "stack/wire/address.h"

namespace roci {

/// One moment of the device. Plain data: the two libraries have no allocator in common.
struct DeviceView {
  static constexpr std::size_t kMostRows = 64;

  std::uint32_t rows = 0;  ///< of the GID table
  std::array<IpAddress, kMostRows> gids;
  std::array<std::uint8_t, kMostRows> prefix_bits{};  ///< of each row's subnet, at most 32 for IPv4
  MacAddress mac;
  bool link_up = false;
  std::array<std::uint64_t, kCounterInfos.size()> counters{};
};

/// Any thread. False if no device is open in this process, or one is just being opened.
using ReadDeviceView = bool (*)(DeviceView*);
/// What the preloaded library exports, under kServeDeviceView.
using ServeDeviceView = void (*)(ReadDeviceView);
inline constexpr const char* kServeDeviceView = "roci_redirect_serve_view";

/// Opens the device for a program that lists interfaces. Any thread. False if that cannot be done.
using OpenForAddresses = bool (*)();
/// What the preloaded library exports, under kServeAddresses.
using ServeAddresses = void (*)(OpenForAddresses);
inline constexpr const char* kServeAddresses = "roci_redirect_serve_addresses";

/// Offers the process's device to the preloaded library, if there is one.
void offer_device_view(ReadDeviceView read);

}  // namespace roci
