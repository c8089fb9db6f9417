// The device list, opening and closing.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "verbs-shim/ibverbs/events.h"
#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/identity.h"

namespace roci::shim {
namespace {

const int kNoProvider = 0;
ShimDevice the_device;
pthread_mutex_t device_mutex = PTHREAD_MUTEX_INITIALIZER;

template <std::size_t kBytes>
void copy_text(char (&to)[kBytes], const std::string& from) {
  std::snprintf(to, kBytes, "%s", from.c_str());
}

/// The one device, described from the settings. Null with errno if the settings are bad.
ShimDevice* describe_device() {
  LiveConfig config;
  std::string error;
  if (!read_live_config(&config, &error)) {
    std::fprintf(stderr, "rocinante: %s\n", error.c_str());
    return fail_with<ShimDevice>(EINVAL);
  }
  pthread_mutex_lock(&device_mutex);
  ibv_device& base = the_device.base;
  base.node_type = IBV_NODE_CA;
  base.transport_type = IBV_TRANSPORT_IB;
  copy_text(base.name, config.device_name);
  copy_text(base.dev_name, kNodeName);
  copy_text(base.dev_path, std::string("/sys/class/infiniband_verbs/") + kNodeName);
  copy_text(base.ibdev_path, "/sys/class/infiniband/" + config.device_name);
  the_device.provider = &kNoProvider;
  the_device.guid = guid_of(config.device_name);
  pthread_mutex_unlock(&device_mutex);
  return &the_device;
}

void destroy(ShimContext* context) {
  context->live->release();
  delete context->async_events;
  if (context->verbs.context.cmd_fd >= 0) close(context->verbs.context.cmd_fd);
  delete context;
}

}  // namespace

std::uint64_t device_guid(ibv_device* device) { return reinterpret_cast<ShimDevice*>(device)->guid; }

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT ibv_device** ibv_get_device_list(int* count) {
  if (count != nullptr) *count = 0;
  ShimDevice* device = describe_device();
  if (device == nullptr) return nullptr;
  auto** list = static_cast<ibv_device**>(calloc(2, sizeof(ibv_device*)));
  if (list == nullptr) return fail_with<ibv_device*>(ENOMEM);
  list[0] = &device->base;
  if (count != nullptr) *count = 1;
  return list;
}

ROCI_EXPORT void ibv_free_device_list(ibv_device** list) { free(list); }

ROCI_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

ROCI_EXPORT __be64 ibv_get_device_guid(ibv_device* device) { return __builtin_bswap64(device_guid(device)); }

ROCI_EXPORT int ibv_get_device_index(ibv_device*) { return 0; }

ROCI_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  roci::LiveDevice* live = roci::LiveDevice::acquire(event_sink());
  if (live == nullptr) return nullptr;
  auto* context = new ShimContext{};
  context->live = live;
  context->async_events = new EventQueue<roci::AsyncEvent>;
  ibv_context& base = context->verbs.context;
  base.async_fd = context->async_events->fd();
  base.cmd_fd = eventfd(0, EFD_CLOEXEC);
  if (base.async_fd < 0 || base.cmd_fd < 0) {
    const int error = errno;
    destroy(context);
    return fail_with<ibv_context>(error);
  }
  fill_operations(&context->verbs);
  base.device = device;
  base.num_comp_vectors = 1;
  pthread_mutex_init(&base.mutex, nullptr);
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context->verbs.sz = sizeof(verbs_context);
  add_context(context);
  return &base;
}

ROCI_EXPORT int ibv_close_device(ibv_context* base) {
  ShimContext* context = from(base);
  remove_context(context);
  // What the client has not destroyed stays as it is until the process ends, and so does what it hangs on.
  if (context->objects != 0 && !is_detached(base)) return 0;
  pthread_mutex_destroy(&base->mutex);
  destroy(context);
  return 0;
}
