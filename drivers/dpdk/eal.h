// DPDK's environment: started once in a process, on a thread of ours, and never ended.
#pragma once

#include <string>

namespace roci::dpdk {

/// Starts the environment if it is not. `pci` also looks for devices on the PCI bus: then it must be the first call.
/// False with `*error` on failure, and at each later call.
bool start_eal(bool pci, std::string* error);

}  // namespace roci::dpdk
