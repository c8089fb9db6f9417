// What the device and its port are.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "drivers/live/clock.h"
#include "verbs-shim/ibverbs/events.h"
#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"
#include "verbs-shim/identity.h"

namespace roci::shim {
namespace {

constexpr std::uint16_t kDefaultPkey = 0xffff;

/// Some clients choose their path by part number; a test may want to walk it.
std::uint32_t id_from_environment(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 0));
}

int limit(std::uint64_t value) { return static_cast<int>(std::min<std::uint64_t>(value, INT32_MAX)); }

void fill_device_attr(ibv_context* context, ibv_device_attr* attr) {
  const DeviceLimits& limits = device_of(context).config().limits;
  *attr = {};
  std::strcpy(attr->fw_ver, kFirmware);
  attr->node_guid = attr->sys_image_guid = __builtin_bswap64(device_guid(context->device));
  attr->max_mr_size = limits.max_mr_size;
  attr->page_size_cap = ~std::uint64_t{4095};
  attr->vendor_id = id_from_environment("ROCI_VENDOR_ID", kVendorId);
  attr->vendor_part_id = id_from_environment("ROCI_VENDOR_PART_ID", kVendorPartId);
  attr->hw_ver = 1;
  attr->max_qp = limit(limits.max_qp);
  attr->max_qp_wr = limit(limits.max_qp_wr);
  attr->device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_RC_RNR_NAK_GEN |
                           IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID;
  attr->max_sge = limit(limits.max_sge);
  attr->max_sge_rd = limit(limits.max_sge_rd);
  attr->max_cq = limit(limits.max_cq);
  attr->max_cqe = limit(limits.max_cqe);
  attr->max_mr = limit(limits.max_mr);
  attr->max_mw = limit(limits.max_mw);
  attr->max_pd = limit(limits.max_pd);
  attr->max_qp_rd_atom = limits.max_qp_rd_atom;
  attr->max_res_rd_atom = limit(std::uint64_t{limits.max_qp_rd_atom} * limits.max_qp);
  attr->max_qp_init_rd_atom = limits.max_qp_init_rd_atom;
  attr->atomic_cap = IBV_ATOMIC_HCA;
  attr->max_ah = limit(limits.max_ah);
  attr->max_mcast_grp = limit(limits.max_mcast_grp);
  attr->max_mcast_qp_attach = limit(limits.max_mcast_qp_attach);
  attr->max_total_mcast_qp_attach = limit(std::uint64_t{limits.max_mcast_grp} * limits.max_mcast_qp_attach);
  attr->max_srq = limit(limits.max_srq);
  attr->max_srq_wr = limit(limits.max_srq_wr);
  attr->max_srq_sge = limit(limits.max_srq_sge);
  attr->max_pkeys = 1;
  attr->phys_port_cnt = 1;
}

ibv_port_attr describe_port(ibv_context* context) {
  Device& device = device_of(context);
  const PortAttributes port = device.port_attributes();
  ibv_port_attr attr{};
  attr.state = port.link_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = static_cast<ibv_mtu>(device.active_mtu());
  attr.gid_tbl_len = static_cast<int>(port.addresses.size());
  attr.port_cap_flags = IBV_PORT_CM_SUP;
  attr.max_msg_sz = 1u << 31;
  attr.pkey_tbl_len = 1;
  attr.max_vl_num = 1;
  attr.active_width = kActiveWidth;
  attr.active_speed = kActiveSpeed;
  attr.phys_state = port.link_up ? 5 : 3;
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  return attr;
}

bool gid_at(ibv_context* context, std::uint32_t port_num, std::uint32_t index, ibv_gid* gid) {
  if (is_detached(context)) return errno = EIO, false;
  if (port_num != 1) return errno = EINVAL, false;
  const PortAttributes port = device_of(context).port_attributes();
  if (index >= port.addresses.size()) return errno = EINVAL, false;
  std::memcpy(gid->raw, port.addresses[index].bytes.data(), sizeof gid->raw);
  return true;
}

/// A row of the table whose address is gone.
bool is_empty(const ibv_gid& gid) { return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0; }

}  // namespace

int query_port(ibv_context* context, std::uint8_t port_num, ibv_port_attr* out, std::size_t bytes) {
  if (is_detached(context)) return EIO;
  if (port_num != 1) return EINVAL;
  const ibv_port_attr attr = describe_port(context);
  std::memcpy(out, &attr, std::min(bytes, sizeof attr));
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    std::size_t bytes) {
  if (is_detached(context)) return EIO;
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (bytes < offsetof(ibv_device_attr_ex, comp_mask) + sizeof out->comp_mask) return EINVAL;
  ibv_device_attr_ex attr{};
  fill_device_attr(context, &attr.orig_attr);
  attr.completion_timestamp_mask = UINT64_MAX;
  attr.hca_core_clock = 1'000'000;  // kHz: completions are stamped in nanoseconds
  attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags;
  attr.phys_port_cnt_ex = 1;
  std::memcpy(out, &attr, std::min(bytes, sizeof attr));
  return 0;
}

int query_rt_values(ibv_context* context, ibv_values_ex* values) {
  if (is_detached(context)) return EIO;
  if ((values->comp_mask & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return EINVAL;
  const std::int64_t ns = live_now().ps / 1000;
  values->raw_clock = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  return 0;
}

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  if (is_detached(context)) return EIO;
  fill_device_attr(context, attr);
  return 0;
}

/// Programs that call the symbol were compiled when the structure ended before port_cap_flags2.
ROCI_EXPORT int ibv_query_port(ibv_context* context, std::uint8_t port_num, _compat_ibv_port_attr* attr) {
  return query_port(context, port_num, reinterpret_cast<ibv_port_attr*>(attr),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

ROCI_EXPORT int ibv_query_gid(ibv_context* context, std::uint8_t port_num, int index, ibv_gid* gid) {
  return gid_at(context, port_num, static_cast<std::uint32_t>(index), gid) ? 0 : -1;
}

ROCI_EXPORT int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port_num, std::uint32_t index,
                                  ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_bytes) {
  ibv_gid_entry found{};
  if (flags != 0) return EINVAL;
  if (!gid_at(context, port_num, index, &found.gid)) return errno;
  if (is_empty(found.gid)) return ENODATA;
  found.gid_index = index;
  found.port_num = port_num;
  found.gid_type = IBV_GID_TYPE_ROCE_V2;
  std::memcpy(entry, &found, std::min(entry_bytes, sizeof found));
  return 0;
}

ROCI_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t max_entries,
                                         std::uint32_t flags, std::size_t entry_bytes) {
  if (flags != 0) return -EINVAL;
  if (is_detached(context)) return -EIO;
  const std::size_t rows = device_of(context).port_attributes().addresses.size();
  auto* out = reinterpret_cast<std::byte*>(entries);
  std::size_t found = 0;
  for (std::uint32_t i = 0; i < rows; ++i) {
    ibv_gid_entry entry;
    if (_ibv_query_gid_ex(context, 1, i, &entry, 0, sizeof entry) != 0) continue;
    if (found == max_entries) return -EINVAL;
    std::memcpy(out + found++ * entry_bytes, &entry, std::min(entry_bytes, sizeof entry));
  }
  return static_cast<ssize_t>(found);
}

/// Speaks of types as sysfs does: v1 is 0, v2 is 1.
ROCI_EXPORT int ibv_query_gid_type(ibv_context* context, std::uint8_t port_num, unsigned index, int* type) {
  constexpr int kSysfsRoceV2 = 1;
  ibv_gid gid;
  if (!gid_at(context, port_num, index, &gid)) return -1;
  *type = kSysfsRoceV2;
  return 0;
}

ROCI_EXPORT int ibv_query_pkey(ibv_context* context, std::uint8_t port_num, int index, __be16* pkey) {
  if (is_detached(context)) return errno = EIO, -1;
  if (port_num != 1 || index != 0) return errno = EINVAL, -1;
  *pkey = __builtin_bswap16(kDefaultPkey);
  return 0;
}

ROCI_EXPORT int ibv_get_pkey_index(ibv_context* context, std::uint8_t port_num, __be16 pkey) {
  if (is_detached(context)) return errno = EIO, -1;
  if (port_num == 1 && pkey == __builtin_bswap16(kDefaultPkey)) return 0;
  return errno = EINVAL, -1;
}
