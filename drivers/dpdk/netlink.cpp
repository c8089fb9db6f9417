#include "drivers/dpdk/netlink.h"

#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace roci::dpdk {
namespace {

constexpr std::size_t kBufferBytes = 32768;

unsigned char family_of(const IpAddress& address) {
  return static_cast<unsigned char>(address.is_v4() ? AF_INET : AF_INET6);
}

void put_address(nlmsghdr* message, std::uint16_t attribute, const IpAddress& address) {
  if (address.is_v4())
    mnl_attr_put(message, attribute, 4, address.bytes.data() + 12);
  else
    mnl_attr_put(message, attribute, 16, address.bytes.data());
}

IpAddress address_of(const nlattr* attribute) {
  IpAddress address;
  const void* data = mnl_attr_get_payload(attribute);
  if (mnl_attr_get_payload_len(attribute) == 4) {
    std::uint32_t v4 = 0;
    std::memcpy(&v4, data, sizeof v4);
    return IpAddress::v4(ntohl(v4));
  }
  std::memcpy(address.bytes.data(), data, address.bytes.size());
  return address;
}

MacAddress mac_of(const nlattr* attribute) {
  MacAddress mac;
  if (mnl_attr_get_payload_len(attribute) == mac.bytes.size())
    std::memcpy(mac.bytes.data(), mnl_attr_get_payload(attribute), mac.bytes.size());
  return mac;
}

bool is_link_local(const IpAddress& address) {
  return !address.is_v4() && address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
}

/// libmnl's own loop is a macro that does not compile as C++.
template <class Visit>
void for_each_attribute(const nlmsghdr* message, std::size_t header_bytes, Visit visit) {
  const char* const end = static_cast<const char*>(mnl_nlmsg_get_payload_tail(message));
  const auto* at = static_cast<const nlattr*>(mnl_nlmsg_get_payload_offset(message, header_bytes));
  for (; mnl_attr_ok(at, static_cast<int>(end - reinterpret_cast<const char*>(at))); at = mnl_attr_next(at)) visit(at);
}

int read_link(const nlmsghdr* message, void* data) {
  auto* state = static_cast<InterfaceState*>(data);
  const auto* link = static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(message));
  if (static_cast<unsigned>(link->ifi_index) != state->index) return MNL_CB_OK;
  state->is_up = (link->ifi_flags & IFF_UP) != 0 && (link->ifi_flags & IFF_RUNNING) != 0;
  for_each_attribute(message, sizeof *link, [&](const nlattr* attribute) {
    if (mnl_attr_get_type(attribute) == IFLA_ADDRESS) state->mac = mac_of(attribute);
    if (mnl_attr_get_type(attribute) == IFLA_MTU) state->mtu_bytes = mnl_attr_get_u32(attribute);
  });
  return MNL_CB_OK;
}

int read_address(const nlmsghdr* message, void* data) {
  auto* state = static_cast<InterfaceState*>(data);
  const auto* entry = static_cast<const ifaddrmsg*>(mnl_nlmsg_get_payload(message));
  if (entry->ifa_index != state->index) return MNL_CB_OK;
  IpAddress own;
  for_each_attribute(message, sizeof *entry, [&](const nlattr* attribute) {
    // IFA_ADDRESS is the other end's on a point-to-point link; IPv6 has no IFA_LOCAL then.
    const int type = mnl_attr_get_type(attribute);
    if (type == IFA_LOCAL || (type == IFA_ADDRESS && own.is_unspecified())) own = address_of(attribute);
  });
  if (!own.is_unspecified() && !is_link_local(own)) state->addresses.push_back(own);
  return MNL_CB_OK;
}

struct RouteAnswer {
  unsigned interface = 0;
  bool is_local = false;
  IpAddress gateway;
};

int read_route(const nlmsghdr* message, void* data) {
  auto* answer = static_cast<RouteAnswer*>(data);
  const auto* route = static_cast<const rtmsg*>(mnl_nlmsg_get_payload(message));
  answer->is_local = route->rtm_type == RTN_LOCAL;
  for_each_attribute(message, sizeof *route, [&](const nlattr* attribute) {
    if (mnl_attr_get_type(attribute) == RTA_OIF) answer->interface = mnl_attr_get_u32(attribute);
    if (mnl_attr_get_type(attribute) == RTA_GATEWAY) answer->gateway = address_of(attribute);
  });
  return MNL_CB_OK;
}

int read_neighbour(const nlmsghdr* message, void* data) {
  auto* found = static_cast<std::optional<MacAddress>*>(data);
  const auto* entry = static_cast<const ndmsg*>(mnl_nlmsg_get_payload(message));
  constexpr unsigned kUsable = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;
  if ((entry->ndm_state & kUsable) == 0) return MNL_CB_OK;
  for_each_attribute(message, sizeof *entry, [&](const nlattr* attribute) {
    if (mnl_attr_get_type(attribute) == NDA_LLADDR) *found = mac_of(attribute);
  });
  return MNL_CB_OK;
}

template <class Body>
Body* start_message(std::array<char, kBufferBytes>& buffer, std::uint16_t type, unsigned flags) {
  nlmsghdr* message = mnl_nlmsg_put_header(buffer.data());
  message->nlmsg_type = type;
  message->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  return static_cast<Body*>(mnl_nlmsg_put_extra_header(message, sizeof(Body)));
}

nlmsghdr* as_message(std::array<char, kBufferBytes>& buffer) { return reinterpret_cast<nlmsghdr*>(buffer.data()); }

mnl_socket* open_socket(unsigned groups) {
  mnl_socket* socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | (groups != 0 ? SOCK_NONBLOCK : 0));
  if (socket == nullptr) return nullptr;
  if (mnl_socket_bind(socket, groups, MNL_SOCKET_AUTOPID) == 0) return socket;
  const int reason = errno;
  mnl_socket_close(socket);
  errno = reason;
  return nullptr;
}

}  // namespace

bool Netlink::open(const std::string& interface, std::string* error) {
  interface_ = interface;
  index_ = if_nametoindex(interface.c_str());
  if (index_ == 0) {
    *error = "there is no interface " + interface;
    errno = ENODEV;
    return false;
  }
  constexpr unsigned kGroups =
      RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
  queries_ = open_socket(0);
  changes_ = open_socket(kGroups);
  if (queries_ != nullptr && changes_ != nullptr) return true;
  *error = std::string("rtnetlink: ") + std::strerror(errno);
  return false;
}

Netlink::~Netlink() {
  if (queries_ != nullptr) mnl_socket_close(queries_);
  if (changes_ != nullptr) mnl_socket_close(changes_);
}

int Netlink::changes_fd() const { return mnl_socket_get_fd(changes_); }

bool Netlink::clear_changes() {
  std::array<char, kBufferBytes> buffer;
  bool any = false;
  // An overrun (ENOBUFS) is a change, too.
  while (mnl_socket_recvfrom(changes_, buffer.data(), buffer.size()) > 0 || errno == ENOBUFS) any = true;
  return any;
}

bool Netlink::request(nlmsghdr* message, int (*callback)(const nlmsghdr*, void*), void* data) {
  message->nlmsg_seq = ++sequence_;
  if (mnl_socket_sendto(queries_, message, message->nlmsg_len) < 0) return false;
  std::array<char, kBufferBytes> buffer;
  // Ends with the kernel's acknowledgement or the end of its list; an error of the kernel's is in errno.
  for (;;) {
    const ssize_t bytes = mnl_socket_recvfrom(queries_, buffer.data(), buffer.size());
    if (bytes < 0) return false;
    const int status = mnl_cb_run(buffer.data(), static_cast<std::size_t>(bytes), sequence_,
                                  mnl_socket_get_portid(queries_), callback, data);
    if (status <= MNL_CB_STOP) return status == MNL_CB_STOP;
  }
}

std::optional<InterfaceState> Netlink::read_state() {
  InterfaceState state{.index = index_};
  std::array<char, kBufferBytes> buffer;
  auto* link = start_message<ifinfomsg>(buffer, RTM_GETLINK, NLM_F_ACK);
  link->ifi_index = static_cast<int>(index_);
  if (!request(as_message(buffer), read_link, &state)) return std::nullopt;
  for (const int family : {AF_INET, AF_INET6}) {
    auto* address = start_message<ifaddrmsg>(buffer, RTM_GETADDR, NLM_F_DUMP);
    address->ifa_family = static_cast<unsigned char>(family);
    if (!request(as_message(buffer), read_address, &state)) return std::nullopt;
  }
  return state;
}

std::optional<IpAddress> Netlink::next_hop(const IpAddress& destination) {
  std::array<char, kBufferBytes> buffer;
  auto* route = start_message<rtmsg>(buffer, RTM_GETROUTE, NLM_F_ACK);
  route->rtm_family = family_of(destination);
  route->rtm_dst_len = destination.is_v4() ? 32 : 128;
  put_address(as_message(buffer), RTA_DST, destination);
  mnl_attr_put_u32(as_message(buffer), RTA_OIF, index_);
  RouteAnswer answer;
  if (!request(as_message(buffer), read_route, &answer) || answer.is_local || answer.interface != index_)
    return std::nullopt;
  return answer.gateway.is_unspecified() ? destination : answer.gateway;
}

std::optional<MacAddress> Netlink::neighbour(const IpAddress& address) {
  std::array<char, kBufferBytes> buffer;
  auto* entry = start_message<ndmsg>(buffer, RTM_GETNEIGH, NLM_F_ACK);
  entry->ndm_family = family_of(address);
  entry->ndm_ifindex = static_cast<int>(index_);
  put_address(as_message(buffer), NDA_DST, address);
  std::optional<MacAddress> found;
  request(as_message(buffer), read_neighbour, &found);
  return found;
}

/// The kernel resolves what is used. With the right to change neighbours that can be said; without, a datagram to the
/// discard port is a use.
void Netlink::use(const IpAddress& address) {
  std::array<char, kBufferBytes> buffer;
  auto* entry = start_message<ndmsg>(buffer, RTM_NEWNEIGH, NLM_F_ACK | NLM_F_CREATE);
  entry->ndm_family = family_of(address);
  entry->ndm_ifindex = static_cast<int>(index_);
  entry->ndm_flags = NTF_USE;
  put_address(as_message(buffer), NDA_DST, address);
  if (request(
          as_message(buffer), [](const nlmsghdr*, void*) { return MNL_CB_OK; }, nullptr))
    return;
  constexpr std::uint16_t kDiscardPort = 9;
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(kDiscardPort);
  std::memcpy(&to.sin6_addr, address.bytes.data(), address.bytes.size());
  const int socket = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  static_cast<void>(sendto(socket, nullptr, 0, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to), sizeof to));
  close(socket);
}

std::optional<MacAddress> Netlink::resolve(const IpAddress& next_hop) {
  const std::optional<MacAddress> known = neighbour(next_hop);
  if (!known.has_value()) use(next_hop);
  return known;
}

}  // namespace roci::dpdk
