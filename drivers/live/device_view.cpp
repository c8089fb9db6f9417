#include "drivers/live/device_view.h"

#include <dlfcn.h>

namespace roci {

void offer_device_view(ReadDeviceView read) {
  const auto serve = reinterpret_cast<ServeDeviceView>(dlsym(RTLD_DEFAULT, kServeDeviceView));
  if (serve != nullptr) serve(read);
}

}  // namespace roci
