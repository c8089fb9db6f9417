// The XDP program of an interface that is shared with the kernel: RoCE v2 frames for the interface's MAC address, or
// for a multicast group, go to an AF_XDP socket, everything else goes on to the kernel.
#pragma once

#include <string>

#include "stack/wire/address.h"

struct xsk_socket;

namespace roci::dpdk {

enum class XdpMode { kNative, kGeneric };

/// Attached by a BPF link: the kernel takes the program off the interface when this process ends, however it ends.
/// Owner: control to open and close, whoever holds the baton in between.
class XdpProgram {
 public:
  XdpProgram() = default;
  ~XdpProgram();
  XdpProgram(const XdpProgram&) = delete;
  XdpProgram& operator=(const XdpProgram&) = delete;

  /// Puts the program on an interface that has none. False with errno and `*error` on failure; EBUSY if there is a
  /// program, which stays. Frames go to the kernel until a socket is admitted.
  bool attach(unsigned interface_index, const MacAddress& mac, XdpMode mode, std::string* error);
  /// From now on the frames of the interface's first receive queue go to this socket. 0, or a negative errno value.
  int admit(xsk_socket* socket);
  /// The interface has a new MAC address.
  void set_mac(const MacAddress& mac);

 private:
  int map_ = -1;
  int link_ = -1;
};

/// DPDK's AF_XDP driver asks libxdp for a socket with libxdp's own program, which takes every frame, and takes whatever
/// program there is off the interface when it closes. While this exists it gets sockets of `program`, and takes none
/// off. One at a time.
class XdpDriverScope {
 public:
  explicit XdpDriverScope(XdpProgram& program);
  ~XdpDriverScope();
  XdpDriverScope(const XdpDriverScope&) = delete;
  XdpDriverScope& operator=(const XdpDriverScope&) = delete;
};

}  // namespace roci::dpdk
