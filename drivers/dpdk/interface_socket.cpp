#include "drivers/dpdk/interface_socket.h"

#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pcap/pcap.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "drivers/dpdk/child_close.h"
#include "stack/wire/headers_l3.h"

namespace roci::dpdk {
namespace {

/// libpcap's compiler is not thread-safe, and only control calls get here.
bool compile(const char* expression, std::vector<sock_filter>* out) {
  pcap_t* pcap = pcap_open_dead(DLT_EN10MB, 65535);
  bpf_program program{};
  const bool done = pcap != nullptr && pcap_compile(pcap, &program, expression, 1, PCAP_NETMASK_UNKNOWN) == 0;
  if (done) {
    for (unsigned i = 0; i < program.bf_len; ++i) {
      const bpf_insn& in = program.bf_insns[i];
      out->push_back({.code = in.code, .jt = in.jt, .jf = in.jf, .k = in.k});
    }
    pcap_freecode(&program);
  }
  if (pcap != nullptr) pcap_close(pcap);
  return done;
}

/// In front of the program: frames that this host sends, and those for other hosts, end here. What is not IP at all is
/// left to the expression.
void prepend_direction(std::vector<sock_filter>* program) {
  const std::array<sock_filter, 4> here{
      {{BPF_LD | BPF_B | BPF_ABS, 0, 0, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE)},
       {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, PACKET_OUTGOING},
       {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PACKET_OTHERHOST},
       {BPF_RET | BPF_K, 0, 0, 0}}};
  program->insert(program->begin(), here.begin(), here.end());
}

bool attach(int socket, std::vector<sock_filter>& program) {
  const sock_fprog filter{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

bool fail(const char* what, std::string* error) {
  *error = std::string(what) + ": " + std::strerror(errno);
  return false;
}

}  // namespace

std::vector<int> open_sockets(int family) {
  std::vector<int> found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    int domain = 0;
    socklen_t bytes = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == family) found.push_back(fd);
  }
  return found;
}

std::vector<int> new_sockets(int family, const std::vector<int>& before) {
  std::vector<int> found = open_sockets(family);
  std::erase_if(found, [&](int fd) { return std::find(before.begin(), before.end(), fd) != before.end(); });
  return found;
}

bool filter_packet_sockets(const std::vector<int>& sockets, std::string* error) {
  std::vector<sock_filter> program;
  if (!compile("udp dst port 4791", &program)) {
    errno = EINVAL;
    return fail("the packet filter does not compile", error);
  }
  prepend_direction(&program);
  for (const int socket : sockets)
    if (!attach(socket, program)) return fail("the packet filter", error);
  return true;
}

PortHolder::~PortHolder() { close(); }

void PortHolder::close() {
  for (const int socket : sockets_) close_for_good(socket);
  sockets_.clear();
}

bool PortHolder::open(const std::string& interface, bool alone, std::string* error) {
  interface_ = interface;
  if (hold(AF_INET, interface, alone, error) && hold(AF_INET6, interface, alone, error)) return true;
  const int reason = errno;
  close();
  errno = reason;
  return false;
}

void PortHolder::set_membership(const IpAddress& group, bool joined) {
  group_req request{};
  request.gr_interface = if_nametoindex(interface_.c_str());
  const int family = group.is_v4() ? AF_INET : AF_INET6;
  request.gr_group.ss_family = static_cast<sa_family_t>(family);
  if (group.is_v4())
    std::memcpy(&reinterpret_cast<sockaddr_in*>(&request.gr_group)->sin_addr, group.bytes.data() + 12, 4);
  else
    std::memcpy(&reinterpret_cast<sockaddr_in6*>(&request.gr_group)->sin6_addr, group.bytes.data(), 16);
  for (const int socket : sockets_) {
    int domain = 0;
    socklen_t bytes = sizeof domain;
    if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != family) continue;
    setsockopt(socket, family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, joined ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP,
               &request, sizeof request);
  }
}

bool PortHolder::hold(int family, const std::string& interface, bool alone, std::string* error) {
  const int socket = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno == EAFNOSUPPORT || fail("a UDP socket", error);
  sockets_.push_back(socket);
  close_in_child(socket);
  std::vector<sock_filter> nothing = {{BPF_RET | BPF_K, 0, 0, 0}};
  const int on = 1;
  const int shared = alone ? 0 : 1;
  const bool ready =
      attach(socket, nothing) && setsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &shared, sizeof shared) == 0 &&
      (family != AF_INET6 || setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0) &&
      setsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), static_cast<socklen_t>(interface.size())) == 0;
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET)
    reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(kRoceUdpPort);
  else
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_port = htons(kRoceUdpPort);
  if (ready && bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
  return fail("holding UDP port 4791", error);
}

}  // namespace roci::dpdk
