// What the rest knows of ethdev ports: how to ask for one. DPDK itself, and whatever it needs, is in a library of its
// own that is loaded when the first such link is opened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "drivers/dpdk/dpdk_counters.h"
#include "stack/engine/port.h"

namespace roci {

struct DpdkLinkConfig {
  std::string kind;                  ///< netdev, pci or vdev
  std::string name;                  ///< interface, address on the PCI bus, or DPDK's vdev string
  std::string driver = "auto";       ///< netdev: auto, af_xdp, af_xdp_generic or af_packet
  std::vector<IpAddress> addresses;  ///< netdev: empty for those of the interface
  DpdkCounters* counters = nullptr;  ///< of the port, for its life
};

inline constexpr const char* kDpdkLibrary = "libroci-dpdk.so";
inline constexpr const char* kOpenDpdkPort = "roci_open_dpdk_port";

/// Null with errno and `*error` on failure; `*driver` becomes what moves the frames, for people. Not before main(), and
/// from one thread at a time.
using OpenDpdkPort = Port* (*)(const DpdkLinkConfig& config, std::string* driver, std::string* error);

}  // namespace roci
