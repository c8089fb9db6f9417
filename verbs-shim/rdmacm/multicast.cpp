// Multicast groups: joining is the business of IP's group management on RoCE, so it is done at once.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/rdmacm/ids.h"

namespace roci::shim {
namespace {

/// The multicast QPN (IBTA 3.5.10).
constexpr std::uint32_t kMulticastQpn = 0xff'ffff;

bool is_multicast(const IpAddress& address) {
  return address.is_v4() ? address.v4_host_order() >> 28 == 0xe : address.bytes[0] == 0xff;
}

CmMembership* find_membership(CmId& id, const ibv_gid& gid) {
  const auto found = std::find_if(id.memberships.begin(), id.memberships.end(), [&](const CmMembership& membership) {
    return std::memcmp(membership.gid.raw, gid.raw, sizeof gid.raw) == 0;
  });
  return found == id.memberships.end() ? nullptr : &*found;
}

int join(CmId& id, const sockaddr* address, void* context) {
  cm::Endpoint group;
  if (!is_datagram(id) || id.base.verbs == nullptr) return EINVAL;
  if (!read_address(address, &group)) return EAFNOSUPPORT;
  if (!is_multicast(group.address)) return EINVAL;
  CmMembership membership{};
  write_address(group, &membership.address);
  std::memcpy(membership.gid.raw, group.address.bytes.data(), sizeof membership.gid.raw);
  if (find_membership(id, membership.gid) != nullptr) return EADDRINUSE;
  id.memberships.push_back(membership);
  auto* made = new CmEvent{};
  made->owner = &id;
  made->base.id = &id.base;
  made->base.event = RDMA_CM_EVENT_MULTICAST_JOIN;
  rdma_ud_param& ud = made->base.param.ud;
  ud.private_data = context;
  ud.ah_attr = address_attributes(id, group.address);
  ud.qp_num = kMulticastQpn;
  ud.qkey = RDMA_UDP_QKEY;
  from(id.base.channel)->events.push(made);
  return 0;
}

}  // namespace
}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT int rdma_join_multicast(rdma_cm_id* base, sockaddr* address, void* context) {
  if (const int error = join(*from(base), address, context); error != 0) return fail(error);
  return complete(*from(base));
}

ROCI_EXPORT int rdma_join_multicast_ex(rdma_cm_id* base, rdma_cm_join_mc_attr_ex* attr, void* context) {
  constexpr std::uint32_t kRequired = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  if ((attr->comp_mask & kRequired) != kRequired || attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
    return fail(EINVAL);
  if (attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return fail(EINVAL);
  return rdma_join_multicast(base, attr->addr, context);
}

ROCI_EXPORT int rdma_leave_multicast(rdma_cm_id* base, sockaddr* address) {
  CmId& id = *from(base);
  roci::cm::Endpoint group;
  if (!read_address(address, &group)) return fail(EAFNOSUPPORT);
  ibv_gid gid;
  std::memcpy(gid.raw, group.address.bytes.data(), sizeof gid.raw);
  CmMembership* membership = find_membership(id, gid);
  if (membership == nullptr) return fail(EADDRNOTAVAIL);
  if (membership->attached && base->qp != nullptr) ibv_detach_mcast(base->qp, &gid, 0);
  id.memberships.erase(id.memberships.begin() + (membership - id.memberships.data()));
  return 0;
}
