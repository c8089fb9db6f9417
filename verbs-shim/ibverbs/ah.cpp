// Address handles.
#include <cerrno>
#include <cstring>

#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

using namespace roci::shim;

ROCI_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (is_detached(pd->context)) return fail_with<ibv_ah>(EIO);
  roci::AddressVector av;
  if (!make_address_vector(*attr, &av)) return fail_with<ibv_ah>(EINVAL);
  auto* shim = new ShimAh{};
  if (const int error = device_of(pd->context).create_ah(from(pd)->pd, av, &shim->ah); error != 0) {
    delete shim;
    return fail_with<ibv_ah>(error);
  }
  shim->base = {.context = pd->context, .pd = pd, .handle = 0};
  return &shim->base;
}

ROCI_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  if (!is_detached(ah->context)) device_of(ah->context).destroy_ah(from(ah)->ah);
  delete from(ah);
  return 0;
}

/// The way back to the sender of a datagram, from the IP header in front of its data: IPv4 in the second half of the 40
/// bytes, or IPv6 in all of them.
ROCI_EXPORT int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port_num, ibv_wc* wc, ibv_grh* grh,
                                    ibv_ah_attr* attr) {
  *attr = {};
  attr->port_num = port_num;
  attr->sl = wc->sl;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return errno = EINVAL, -1;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(grh);
  const std::uint8_t* v4 = bytes + 20;
  ibv_gid source{};
  ibv_gid destination{};
  if (bytes[0] >> 4 == 6) {
    source = grh->sgid;
    destination = grh->dgid;
    attr->grh.flow_label = __builtin_bswap32(grh->version_tclass_flow) & 0xf'ffff;
    attr->grh.traffic_class = static_cast<std::uint8_t>(__builtin_bswap32(grh->version_tclass_flow) >> 20);
  } else if (v4[0] == 0x45) {
    source.raw[10] = source.raw[11] = destination.raw[10] = destination.raw[11] = 0xff;
    std::memcpy(source.raw + 12, v4 + 12, 4);
    std::memcpy(destination.raw + 12, v4 + 16, 4);
    attr->grh.traffic_class = v4[1];
  } else {
    return errno = EINVAL, -1;
  }
  attr->is_global = 1;
  attr->grh.dgid = source;
  attr->grh.hop_limit = 64;
  const auto gids = device_of(context).port_attributes().addresses;
  for (std::size_t i = 0; i < gids.size(); ++i) {
    if (std::memcmp(gids[i].bytes.data(), destination.raw, sizeof destination.raw) != 0) continue;
    attr->grh.sgid_index = static_cast<std::uint8_t>(i);
    return 0;
  }
  return errno = ENOENT, -1;
}

ROCI_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port_num) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}
