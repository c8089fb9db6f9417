#include "verbs-shim/redirect/device.h"

#include <atomic>
#include <cstdlib>

namespace {

constexpr std::string_view kNetdev = "netdev:";
std::atomic<roci::ReadDeviceView> reader{nullptr};

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

bool kernel_has_addresses() { return variable("ROCI_LINK", "").starts_with(kNetdev); }

std::string interface_name() {
  if (!kernel_has_addresses()) return device_name();
  const std::string_view link = variable("ROCI_LINK", "").substr(kNetdev.size());
  return std::string(link.substr(0, link.find('/')));
}

}  // namespace roci::redirect

/// Called by the stack when it opens the device.
extern "C" __attribute__((visibility("default"))) void roci_redirect_serve_view(roci::ReadDeviceView read) {
  reader.store(read, std::memory_order_release);
}
