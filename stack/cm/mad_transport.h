// The seam between the communication manager and the link: management datagrams go out here, and come back to a
// receiver. Live it is QP1 of the port, in tests a network in virtual time.
#pragma once

#include <cstdint>

#include "stack/wire/address.h"
#include "stack/wire/mad.h"

namespace roci::cm {

/// Between which addresses a management datagram travels, always from QP1 to QP1.
struct MadPath {
  IpAddress local;
  IpAddress remote;
  /// Names the process, where several share the remote address: a communication id of that process, 0 if none is known.
  std::uint32_t remote_id = 0;
};

/// Owner: whoever turns the communication manager.
class MadTransport {
 public:
  virtual ~MadTransport() = default;
  /// Sends once, without a promise that it arrives. The message is copied.
  virtual void send(const MadPath& path, const Mad& message) = 0;
  /// A number for the life of the process at the other end; 0 if there is none, always 1 if that cannot be known.
  virtual std::uint64_t incarnation(const MadPath&) { return 1; }
  /// The message is for none here: gives it to the next process of this host. False if there is none.
  virtual bool pass_on(const MadPath&, const Mad&) { return false; }
};

}  // namespace roci::cm
