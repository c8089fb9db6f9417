// Socket addresses and rdma_getaddrinfo.
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "verbs-shim/rdmacm/ids.h"

namespace roci::shim {

socklen_t address_bytes(const sockaddr* address) {
  switch (address->sa_family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    default:
      return 0;
  }
}

bool read_address(const sockaddr* address, cm::Endpoint* out) {
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    *out = {IpAddress::v4(ntohl(v4.sin_addr.s_addr)), ntohs(v4.sin_port)};
    return true;
  }
  if (address->sa_family != AF_INET6) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  std::memcpy(out->address.bytes.data(), v6.sin6_addr.s6_addr, out->address.bytes.size());
  out->port = ntohs(v6.sin6_port);
  return true;
}

socklen_t write_address(const cm::Endpoint& endpoint, sockaddr_storage* out) {
  *out = {};
  if (endpoint.address.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(endpoint.port);
    v4.sin_addr.s_addr = htonl(endpoint.address.v4_host_order());
    std::memcpy(out, &v4, sizeof v4);
    return sizeof v4;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(endpoint.port);
  std::memcpy(v6.sin6_addr.s6_addr, endpoint.address.bytes.data(), endpoint.address.bytes.size());
  std::memcpy(out, &v6, sizeof v6);
  return sizeof v6;
}

namespace {

sockaddr* copy_address(const sockaddr* address, socklen_t bytes) {
  auto* copy = static_cast<sockaddr*>(std::calloc(1, sizeof(sockaddr_storage)));
  if (copy != nullptr) std::memcpy(copy, address, bytes);
  return copy;
}

/// What of the hints tells the port space and the QP type from each other.
void choose_service(const rdma_addrinfo* hints, rdma_addrinfo* out) {
  out->ai_qp_type = hints != nullptr ? hints->ai_qp_type : 0;
  out->ai_port_space = hints != nullptr ? hints->ai_port_space : 0;
  if (out->ai_port_space == 0) out->ai_port_space = out->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
  if (out->ai_qp_type == 0) out->ai_qp_type = out->ai_port_space == RDMA_PS_TCP ? IBV_QPT_RC : IBV_QPT_UD;
}

int resolve(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo* out) {
  const int flags = hints != nullptr ? hints->ai_flags : 0;
  addrinfo wanted{};
  if ((flags & RAI_PASSIVE) != 0) wanted.ai_flags |= AI_PASSIVE;
  if ((flags & RAI_NUMERICHOST) != 0) wanted.ai_flags |= AI_NUMERICHOST;
  if (hints != nullptr && ((flags & RAI_FAMILY) != 0 || hints->ai_family != 0)) wanted.ai_family = hints->ai_family;
  if (wanted.ai_family != AF_INET && wanted.ai_family != AF_INET6) wanted.ai_family = AF_UNSPEC;
  // One answer for each address, not one for each kind of socket.
  wanted.ai_socktype = out->ai_port_space == RDMA_PS_TCP ? SOCK_STREAM : SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(node, service, &wanted, &found); error != 0) return error;
  sockaddr* copy = copy_address(found->ai_addr, found->ai_addrlen);
  out->ai_family = found->ai_family;
  if ((flags & RAI_PASSIVE) != 0) {
    out->ai_src_addr = copy;
    out->ai_src_len = found->ai_addrlen;
  } else {
    out->ai_dst_addr = copy;
    out->ai_dst_len = found->ai_addrlen;
  }
  freeaddrinfo(found);
  return copy == nullptr ? EAI_MEMORY : 0;
}

}  // namespace
}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                                 rdma_addrinfo** res) {
  if (node == nullptr && service == nullptr && hints == nullptr) return fail(EINVAL);
  auto* made = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
  if (made == nullptr) return fail(ENOMEM);
  if (hints != nullptr) made->ai_flags = hints->ai_flags;
  choose_service(hints, made);
  if (node != nullptr || service != nullptr) {
    if (const int error = resolve(node, service, hints, made); error != 0) {
      rdma_freeaddrinfo(made);
      // As getaddrinfo() tells what is wrong, with errno only for what the system refused.
      return error;
    }
  } else {
    made->ai_family = hints->ai_family;
    if (hints->ai_dst_addr != nullptr) {
      made->ai_dst_addr = copy_address(hints->ai_dst_addr, hints->ai_dst_len);
      made->ai_dst_len = hints->ai_dst_len;
    }
  }
  if (made->ai_src_len == 0 && hints != nullptr && hints->ai_src_len != 0) {
    made->ai_src_addr = copy_address(hints->ai_src_addr, hints->ai_src_len);
    made->ai_src_len = hints->ai_src_len;
  }
  *res = made;
  return 0;
}

ROCI_EXPORT void rdma_freeaddrinfo(rdma_addrinfo* res) {
  while (res != nullptr) {
    rdma_addrinfo* next = res->ai_next;
    std::free(res->ai_src_addr);
    std::free(res->ai_dst_addr);
    std::free(res->ai_src_canonname);
    std::free(res->ai_dst_canonname);
    std::free(res->ai_route);
    std::free(res->ai_connect);
    std::free(res);
    res = next;
  }
}
