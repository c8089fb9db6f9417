// A kernel interface as an ethdev port: by AF_XDP where that can be had, else by af_packet.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "drivers/dpdk/ethdev.h"
#include "drivers/dpdk/interface_socket.h"
#include "drivers/dpdk/netlink.h"
#include "drivers/dpdk/xdp_program.h"

namespace roci::dpdk {

/// Owner: as DpdkPort.
class Netdev {
 public:
  /// `driver` is auto, af_xdp, af_xdp_generic or af_packet. Null with errno and `*error` on failure.
  static std::unique_ptr<Netdev> open(const std::string& interface, const std::string& driver,
                                      const InterfaceState& state, std::string* error);
  ~Netdev();
  Netdev(const Netdev&) = delete;
  Netdev& operator=(const Netdev&) = delete;

  Ethdev& device() { return *device_; }
  /// What it came to, for people.
  const std::string& description() const { return description_; }
  /// Sockets that are readable when a frame has arrived.
  const std::vector<int>& arrivals() const { return arrivals_; }
  /// The largest IP packet that it carries, whatever the interface does.
  std::uint32_t most_mtu_bytes() const { return most_mtu_bytes_; }
  void set_mac(const MacAddress& mac);
  void set_membership(const IpAddress& group, bool joined) { holder_.set_membership(group, joined); }

 private:
  struct Request;

  Netdev() = default;
  bool open_af_xdp(const Request& request, std::string* error);
  bool open_af_xdp(const Request& request, XdpMode mode, std::string* error);
  void keep_arrivals(std::vector<int> sockets);
  bool open_af_packet(const Request& request, std::string* error);

  PortHolder holder_;
  std::unique_ptr<XdpProgram> program_;           ///< null with af_packet
  std::unique_ptr<XdpDriverScope> driver_scope_;  ///< while the device is there
  std::unique_ptr<Ethdev> device_;
  std::vector<int> arrivals_;
  std::uint32_t most_mtu_bytes_ = 0;
  std::string description_;
};

}  // namespace roci::dpdk
