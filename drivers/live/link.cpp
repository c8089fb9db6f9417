#include "drivers/live/link.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
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
  OpenedLink link;
  for (auto& port : CablePort::open_ends(cable, config.workers(), error)) {
    auto* counters = reinterpret_cast<Counters*>(port->counter_region().data());
    link.ports.push_back({.port = std::move(port), .counters = counters});
  }
  return link;
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
  OpenedLink opened;
  opened.ports.push_back({.port = std::move(port), .counters = file->counters()});
  opened.file = std::move(file);
  return opened;
}

bool add_faults(const LiveConfig& config, OpenedLink* link, std::string* error) {
  if (config.faults.empty()) return true;
  FaultScript script;
  if (!read_fault_script(config.faults, &script, error)) {
    *error = "faults: " + *error;
    errno = EINVAL;
    return false;
  }
  for (OpenedPort& opened : link->ports) {
    opened.port = std::make_unique<FaultPort>(std::move(opened.port), script);
    // Another worker is another draw.
    ++script.seed;
  }
  return true;
}

/// Each worker but the first has a file of its own, with its number before the extension.
std::string capture_path(const std::string& path, std::size_t worker) {
  if (worker == 0) return path;
  std::filesystem::path numbered(path);
  numbered.replace_extension("." + std::to_string(worker) + numbered.extension().string());
  return numbered;
}

bool add_capture(const LiveConfig& config, OpenedLink* link, std::string* error) {
  if (config.capture.empty()) return true;
  for (std::size_t i = 0; i < link->ports.size(); ++i) {
    std::unique_ptr<Port>& port = link->ports[i].port;
    port = CapturePort::open(std::move(port), config.device_name, capture_path(config.capture, i), error);
    if (port != nullptr) continue;
    *error = "capture: " + *error;
    errno = EIO;
    return false;
  }
  return true;
}

}  // namespace

OpenedLink open_link(const LiveConfig& config, std::string* error) {
  OpenedLink link = config.link.kind == "cable" ? open_cable(config, error) : open_dpdk(config, error);
  if (link.ports.empty()) {
    *error = config.link.kind + ":" + config.link.name + ": " + *error;
    return {};
  }
  if (!add_faults(config, &link, error) || !add_capture(config, &link, error)) return {};
  return link;
}

}  // namespace roci
