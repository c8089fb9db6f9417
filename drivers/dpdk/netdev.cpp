#include "drivers/dpdk/netdev.h"

#include <linux/ethtool.h>
#include <linux/if_xdp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "drivers/dpdk/child_close.h"
#include "stack/wire/headers_l3.h"

namespace roci::dpdk {
namespace {

/// af_packet's frames of 8192 bytes have to fit, with headroom.
constexpr std::uint32_t kJumboBufferBytes = 8192 + 256;
/// What a frame of af_packet has room for, less its own header, Ethernet's and a tag.
constexpr std::uint32_t kMostPacketMtuBytes = 8192 - 64 - 18;
/// A frame of AF_XDP lies in one page, behind DPDK's headers and headrooms (64, 128 and 128 bytes) and the kernel's
/// (256), and has Ethernet's header and a tag.
constexpr std::uint32_t kMostXdpMtuBytes = 4096 - 576 - 18;

/// Receive queues of an interface. An AF_XDP socket is served by one.
std::uint32_t receive_queues(const std::string& interface) {
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request{};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool told = socket >= 0 && ioctl(socket, SIOCETHTOOL, &request) == 0;
  if (socket >= 0) close(socket);
  return told ? std::max(1u, channels.combined_count + channels.rx_count) : 1;
}

bool is_zero_copy(int socket) {
  xdp_options options{};
  socklen_t bytes = sizeof options;
  return getsockopt(socket, SOL_XDP, XDP_OPTIONS, &options, &bytes) == 0 && (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

}  // namespace

struct Netdev::Request {
  std::string interface;
  std::string driver;
  InterfaceState state;
};

std::unique_ptr<Netdev> Netdev::open(const std::string& interface, const std::string& driver,
                                     const InterfaceState& state, std::string* error) {
  std::unique_ptr<Netdev> made(new Netdev);
  const Request request{.interface = interface, .driver = driver, .state = state};
  std::string why;
  if (driver != "af_packet") {
    if (made->open_af_xdp(request, &why)) return made;
    if (driver != "auto") {
      *error = "AF_XDP: " + why;
      return nullptr;
    }
  }
  if (!made->open_af_packet(request, error)) return nullptr;
  if (driver == "auto") made->description_ += ", as AF_XDP cannot be had: " + why;
  return made;
}

Netdev::~Netdev() {
  for (const int fd : arrivals_) forget_in_child(fd);
}

void Netdev::keep_arrivals(std::vector<int> sockets) {
  arrivals_ = std::move(sockets);
  for (const int fd : arrivals_) {
    close_in_child(fd);
    unmap_in_child(fd);
  }
}

void Netdev::set_mac(const MacAddress& mac) {
  if (program_ != nullptr) program_->set_mac(mac);
}

bool Netdev::open_af_xdp(const Request& request, std::string* error) {
  const std::uint32_t queues = receive_queues(request.interface);
  const std::uint32_t mtu = request.state.mtu_bytes;
  if (queues > 1) {
    *error = "the interface has " + std::to_string(queues) + " receive queues (ethtool -L " + request.interface +
             " combined 1 leaves one)";
    errno = EOPNOTSUPP;
    return false;
  }
  if (request.driver == "auto" && mtu > kMostXdpMtuBytes) {
    *error = "it carries an MTU of " + std::to_string(kMostXdpMtuBytes) + " at most, the interface has " +
             std::to_string(mtu);
    return false;
  }
  if (!holder_.open(request.interface, true, error)) {
    if (errno == EADDRINUSE) *error = "another stack is on the interface";
    return false;
  }
  std::string native = "not tried";
  if (request.driver != "af_xdp_generic" && open_af_xdp(request, XdpMode::kNative, &native)) return true;
  if (open_af_xdp(request, XdpMode::kGeneric, error)) {
    if (request.driver != "af_xdp_generic") description_ += ", as native cannot be had: " + native;
    return true;
  }
  holder_.close();
  return false;
}

bool Netdev::open_af_xdp(const Request& request, XdpMode mode, std::string* error) {
  program_ = std::make_unique<XdpProgram>();
  if (!program_->attach(request.state.index, request.state.mac, mode, error)) {
    const int reason = errno;
    program_.reset();
    errno = reason;
    return false;
  }
  driver_scope_ = std::make_unique<XdpDriverScope>(*program_);
  const std::vector<int> before = open_sockets(AF_XDP);
  // In generic mode the kernel needs no help to receive; in native mode the driver may.
  const std::string busy_poll = mode == XdpMode::kGeneric ? ",busy_budget=0" : "";
  device_ = Ethdev::open({.bus = "vdev",
                          .device = "net_af_xdp_" + request.interface,
                          .arguments = "iface=" + request.interface + busy_poll,
                          .one_page_each = true},
                         error);
  if (device_ == nullptr) {
    driver_scope_.reset();
    program_.reset();
    return false;
  }
  keep_arrivals(new_sockets(AF_XDP, before));
  most_mtu_bytes_ = kMostXdpMtuBytes;
  const bool zero_copy = std::all_of(arrivals_.begin(), arrivals_.end(), is_zero_copy);
  description_ = std::string("AF_XDP, ") + (mode == XdpMode::kNative ? "native, " : "generic, ") +
                 (zero_copy ? "zero-copy" : "copying");
  return true;
}

bool Netdev::open_af_packet(const Request& request, std::string* error) {
  if (!holder_.open(request.interface, false, error)) {
    if (errno == EADDRINUSE)
      *error = "another stack has the interface by AF_XDP; by af_packet (netdev:" + request.interface +
               "/af_packet) several can share it";
    return false;
  }
  const std::vector<int> before = open_sockets(AF_PACKET);
  device_ = Ethdev::open(
      {.bus = "vdev",
       .device = "net_af_packet_" + request.interface,
       .arguments = "iface=" + request.interface + ",blocksz=65536,framesz=8192,framecnt=512,qdisc_bypass=1",
       .buffer_bytes = kJumboBufferBytes},
      error);
  if (device_ == nullptr) return false;
  keep_arrivals(new_sockets(AF_PACKET, before));
  most_mtu_bytes_ = kMostPacketMtuBytes;
  description_ = "af_packet";
  return filter_packet_sockets(arrivals_, error);
}

}  // namespace roci::dpdk
