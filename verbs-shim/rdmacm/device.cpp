// The device that ids are on: opened once in a process, when the first id is made.
#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>

#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/rdmacm/ids.h"

namespace roci::shim {
namespace {

pthread_mutex_t device_mutex = PTHREAD_MUTEX_INITIALIZER;
const CmDevice* the_device = nullptr;

/// Stays open until the process ends: clients may keep what rdma_get_devices() gave them.
const CmDevice* open_device() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return nullptr;
  ibv_context* verbs = count == 0 ? fail_with<ibv_context>(ENODEV) : ibv_open_device(list[0]);
  const int error = errno;
  ibv_free_device_list(list);
  if (verbs == nullptr) return fail_with<const CmDevice>(error);
  auto* made = new CmDevice;
  made->verbs = verbs;
  made->pd = ibv_alloc_pd(verbs);
  const DeviceLimits& limits = device_of(verbs).config().limits;
  made->max_initiator_depth = limits.max_qp_init_rd_atom;
  made->max_responder_resources = limits.max_qp_rd_atom;
  LiveDevice::CmCall(*from(verbs)->live)->set_handler(&cm_event_handler());
  return made;
}

}  // namespace

const CmDevice* cm_device() {
  pthread_mutex_lock(&device_mutex);
  // A child of the process that opened it has to open its own.
  if (the_device == nullptr || is_detached(the_device->verbs)) the_device = open_device();
  const CmDevice* device = the_device;
  pthread_mutex_unlock(&device_mutex);
  return device;
}

namespace {

void serve_addresses(OpenForAddresses open) {
  const auto serve = reinterpret_cast<ServeAddresses>(dlsym(RTLD_DEFAULT, kServeAddresses));
  if (serve != nullptr) serve(open);
}

/// Who uses this library looks for the device by its addresses, among those that the preloaded library lists.
[[gnu::constructor]] void offer_addresses() {
  serve_addresses([] { return cm_device() != nullptr; });
}

[[gnu::destructor]] void withdraw_addresses() { serve_addresses(nullptr); }

}  // namespace

LiveDevice& live_of(const CmDevice& device) { return *from(device.verbs)->live; }

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT ibv_context** rdma_get_devices(int* count) {
  const CmDevice* device = cm_device();
  if (count != nullptr) *count = device == nullptr ? 0 : 1;
  if (device == nullptr) return nullptr;
  auto** list = static_cast<ibv_context**>(std::calloc(2, sizeof(ibv_context*)));
  if (list == nullptr) return fail_with<ibv_context*>(ENOMEM);
  list[0] = device->verbs;
  return list;
}

ROCI_EXPORT void rdma_free_devices(ibv_context** list) { std::free(list); }
