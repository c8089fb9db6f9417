#include "verbs-shim/redirect/device.h"

#include <dlfcn.h>
#include <net/if.h>

#include <atomic>
#include <cstdlib>

#include "verbs-shim/redirect/files.h"

namespace {

constexpr std::string_view kNetdev = "netdev:";
constexpr const char* kDefaultLink = "cable:default";
std::atomic<roci::ReadDeviceView> reader{nullptr};
std::atomic<roci::OpenForAddresses> opener{nullptr};

std::string_view variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

}  // namespace

namespace roci::redirect {

bool read_device(DeviceView* view) {
  const ReadDeviceView read = reader.load(std::memory_order_acquire);
  return read != nullptr && read(view);
}

std::string device_name() { return std::string(variable("ROCI_NAME", "roci0")); }

bool shows_addresses() {
  const OpenForAddresses open = opener.load(std::memory_order_acquire);
  const std::string_view link = variable("ROCI_LINK", kDefaultLink);
  if (open == nullptr || link.starts_with(kNetdev)) return false;
  // DPDK's drivers may be who asks, while the device is being opened.
  return !link.starts_with("cable") || open();
}

std::string interface_name() {
  std::string_view link = variable("ROCI_LINK", kDefaultLink);
  if (!link.starts_with(kNetdev)) return device_name();
  link.remove_prefix(kNetdev.size());
  return std::string(link.substr(0, link.find('/')));
}

unsigned kernel_index(const char* name) {
  static const auto next = reinterpret_cast<decltype(&if_nametoindex)>(dlsym(RTLD_NEXT, "if_nametoindex"));
  return next(name);
}

}  // namespace roci::redirect

/// Called by the stack when it opens the device.
extern "C" __attribute__((visibility("default"))) void roci_redirect_serve_view(roci::ReadDeviceView read) {
  roci::redirect::remove_abandoned();
  reader.store(read, std::memory_order_release);
}

/// Called by the connection manager's library when it is loaded, and with null when it goes.
extern "C" __attribute__((visibility("default"))) void roci_redirect_serve_addresses(roci::OpenForAddresses open) {
  opener.store(open, std::memory_order_release);
}
