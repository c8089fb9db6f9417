// What the kernel knows of one of its interfaces: addresses, MTU, routes and neighbours, asked over rtnetlink.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stack/wire/address.h"

struct mnl_socket;
struct nlmsghdr;

namespace roci::dpdk {

struct InterfaceState {
  unsigned index = 0;
  MacAddress mac;
  std::uint32_t mtu_bytes = 0;
  bool is_up = false;
  std::vector<IpAddress> addresses;  ///< IPv4, then IPv6; no link-local ones
  bool operator==(const InterfaceState&) const = default;
};

/// Owner: whoever holds the baton.
class Netlink {
 public:
  /// False with errno and `*error` on failure.
  bool open(const std::string& interface, std::string* error);
  Netlink() = default;
  ~Netlink();
  Netlink(const Netlink&) = delete;
  Netlink& operator=(const Netlink&) = delete;

  /// Nothing if the interface is gone.
  std::optional<InterfaceState> read_state();
  /// The next hop on the way to `destination`, if that way leaves by the interface.
  std::optional<IpAddress> next_hop(const IpAddress& destination);
  /// The MAC of a next hop, if the kernel has it; asks the kernel to find it if not.
  std::optional<MacAddress> resolve(const IpAddress& next_hop);
  /// Has the kernel look for a neighbour that it does not know, and make sure of one that it has not heard of for long.
  void use(const IpAddress& next_hop);

  /// Readable when something changed; clear_changes() then empties it.
  int changes_fd() const;
  bool clear_changes();

 private:
  bool request(nlmsghdr* message, int (*callback)(const nlmsghdr*, void*), void* data);
  std::optional<MacAddress> neighbour(const IpAddress& address);

  std::string interface_;
  unsigned index_ = 0;
  mnl_socket* queries_ = nullptr;
  mnl_socket* changes_ = nullptr;
  unsigned sequence_ = 0;
};

}  // namespace roci::dpdk
