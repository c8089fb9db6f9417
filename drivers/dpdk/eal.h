// DPDK's environment: started once in a process, on a thread of ours, and never ended.
#pragma once

#include <string>

namespace roci::dpdk {

/// Starts the environment if it is not. `pci_device` is the only one that is touched on the PCI bus, empty: none; a
/// later call has no choice any more. False with `*error` on failure, and at each later call.
bool start_eal(const std::string& pci_device, std::string* error);

}  // namespace roci::dpdk
