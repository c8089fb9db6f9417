#include "drivers/live/link.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "drivers/cable/cable.h"
#include "drivers/capture/capture.h"
#include "drivers/dpdk/dpdk_link.h"
#include "drivers/faults/fault_port.h"
#include "drivers/faults/fault_script.h"

namespace roci {
namespace {

OpenedLink open_cable(const LiveConfig& config, std::string* error) {
  CableConfig cable;
  cable.name = config.link.name;
  cable.host = config.host;
  cable.device_name = config.device_name;
  for (const IpPrefix& prefix : config.addresses) cable.addresses.push_back(prefix.address);
  auto port = CablePort::open(cable, error);
  if (port == nullptr) return {};
  auto* counters = reinterpret_cast<Counters*>(port->counter_region().data());
  return {.file = nullptr, .port = std::move(port), .counters = counters};
}

OpenedLink open_dpdk(const LiveConfig& config, std::string* error) {
  // It stays for the life of the process, as DPDK does.
  void* library = dlopen(kDpdkLibrary, RTLD_NOW | RTLD_LOCAL);
  const auto open = library == nullptr ? nullptr : reinterpret_cast<OpenDpdkPort>(dlsym(library, kOpenDpdkPort));
  if (open == nullptr) {
    // The loader names the library that is missing; its package has nearly the same name.
    *error = std::string("needs DPDK's run-time libraries: ") + dlerror() +
             "; on Debian: apt-get install libmnl0 libpcap0.8 libbpf1 libxdp1 libnuma1 libbsd0";
    errno = ELIBACC;
    return {};
  }
  auto file = StackFile::create({.link = config.link.kind + ":" + config.link.name,
                                 .device_name = config.device_name,
                                 .driver = {},
                                 .addresses = {}});
  if (file == nullptr) {
    *error = std::string("a file for counters in /dev/shm: ") + std::strerror(errno);
    return {};
  }
  DpdkLinkConfig link{
      .kind = config.link.kind, .name = config.link.name, .driver = config.link.driver, .addresses = {}};
  for (const IpPrefix& prefix : config.addresses) link.addresses.push_back(prefix.address);
  link.counters = file->port_counters();
  std::string driver;
  std::unique_ptr<Port> port(open(link, &driver, error));
  if (port == nullptr) return {};
  file->set_driver(driver);
  file->set_addresses(port->attributes().addresses);
  Counters* counters = file->counters();
  return {.file = std::move(file), .port = std::move(port), .counters = counters};
}

bool add_faults(const LiveConfig& config, OpenedLink* link, std::string* error) {
  if (config.faults.empty()) return true;
  FaultScript script;
  if (!read_fault_script(config.faults, &script, error)) {
    *error = "faults: " + *error;
    errno = EINVAL;
    return false;
  }
  link->port = std::make_unique<FaultPort>(std::move(link->port), std::move(script));
  return true;
}

bool add_capture(const LiveConfig& config, OpenedLink* link, std::string* error) {
  if (config.capture.empty()) return true;
  link->port = CapturePort::open(std::move(link->port), config.device_name, config.capture, error);
  if (link->port != nullptr) return true;
  *error = "capture: " + *error;
  errno = EIO;
  return false;
}

}  // namespace

OpenedLink open_link(const LiveConfig& config, std::string* error) {
  OpenedLink link = config.link.kind == "cable" ? open_cable(config, error) : open_dpdk(config, error);
  if (link.port == nullptr) {
    *error = config.link.kind + ":" + config.link.name + ": " + *error;
    return {};
  }
  if (!add_faults(config, &link, error) || !add_capture(config, &link, error)) return {};
  return link;
}

}  // namespace roci
