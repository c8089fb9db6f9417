// The sockets beside a port that shares its interface with the kernel by af_packet.
#pragma once

#include <string>
#include <vector>

#include "stack/wire/address.h"

namespace roci::dpdk {

/// The open sockets of this process that belong to an address family.
std::vector<int> open_sockets(int family);
/// Those that are not in `before`: a driver made them in between.
std::vector<int> new_sockets(int family, const std::vector<int>& before);

/// Lets only RoCE v2 frames for this host through, tagged or not. False with errno and `*error` on failure.
bool filter_packet_sockets(const std::vector<int>& sockets, std::string* error);

/// Holds UDP port 4791 on an interface, and throws away what comes: without a socket there the kernel, which sees the
/// same frames, would answer each with an ICMP "port unreachable". It also keeps stacks apart that would take each
/// other's frames.
class PortHolder {
 public:
  PortHolder() = default;
  ~PortHolder();
  PortHolder(const PortHolder&) = delete;
  PortHolder& operator=(const PortHolder&) = delete;

  /// `alone`: nobody else may hold it, now or later. False with errno and `*error` on failure; EADDRINUSE if another
  /// stack stands against it.
  bool open(const std::string& interface, bool alone, std::string* error);
  void close();

  /// The interface receives, or no longer, what is sent to a multicast group; the network hears of it (IGMP, MLD).
  void set_membership(const IpAddress& group, bool joined);

 private:
  bool hold(int family, const std::string& interface, bool alone, std::string* error);

  std::string interface_;
  std::vector<int> sockets_;
};

}  // namespace roci::dpdk
