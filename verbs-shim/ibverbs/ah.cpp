// Address handles.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "stack/wire/headers_l3.h"
#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {
namespace {

/// What the IP header in front of a datagram says of its way.
struct Flow {
  IpAddress source;
  IpAddress destination;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
};

/// `header` is 40 bytes: IPv6 in all of them, or IPv4 in the last 20. What is before an IPv4 header is undefined and
/// may look like IPv6, so the checksum decides (IBTA A17.4.5.2).
std::optional<Flow> read_flow(const std::byte* header) {
  const std::byte* last = header + Ipv6Header::kSize - Ipv4Header::kSize;
  const Ipv4Header v4 = Ipv4Header::read(last);
  if (v4.version_ihl == 0x45 && ipv4_header_sum(last) == 0xffff)
    return Flow{.source = IpAddress::v4(v4.source),
                .destination = IpAddress::v4(v4.destination),
                .traffic_class = v4.traffic_class};
  const Ipv6Header v6 = Ipv6Header::read(header);
  if (v6.version != 6) return std::nullopt;
  return Flow{.source = v6.source,
              .destination = v6.destination,
              .flow_label = v6.flow_label,
              .traffic_class = v6.traffic_class};
}

}  // namespace
}  // namespace roci::shim

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

ROCI_EXPORT int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port_num, ibv_wc* wc, ibv_grh* grh,
                                    ibv_ah_attr* attr) {
  *attr = {};
  if (is_detached(context)) return errno = EIO, -1;
  if ((wc->wc_flags & IBV_WC_GRH) == 0 || port_num != 1) return errno = EINVAL, -1;
  const std::optional<Flow> flow = read_flow(reinterpret_cast<const std::byte*>(grh));
  if (!flow.has_value()) return errno = EINVAL, -1;
  attr->is_global = 1;
  attr->port_num = port_num;
  // The service level of a completion tells the kind of the network header: see UnreliableReceiver.
  std::memcpy(attr->grh.dgid.raw, flow->source.bytes.data(), sizeof attr->grh.dgid.raw);
  attr->grh.flow_label = flow->flow_label;
  attr->grh.traffic_class = flow->traffic_class;
  attr->grh.hop_limit = roci::AddressVector{}.hop_limit;
  const auto gids = device_of(context).port_attributes().addresses;
  const auto found = std::find(gids.begin(), gids.end(), flow->destination);
  if (found == gids.end()) return errno = ENOENT, -1;
  attr->grh.sgid_index = static_cast<std::uint8_t>(found - gids.begin());
  return 0;
}

ROCI_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port_num) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}
