// What an end keeps of another end. Private to the cable.
#pragma once

#include <cstdint>

#include "drivers/cable/cable.h"
#include "drivers/cable/ring.h"

namespace roci {

/// Slots for frames that go to nobody.
inline constexpr std::uint32_t kSinkSlots = 64;

/// Owner: the worker.
struct CablePort::Peer {
  std::uint32_t epoch = 0;  ///< of the end that the rings belong to; 0 when nothing is attached
  cable::Producer producer;
  cable::Consumer consumer;
  bool is_dead = false;  ///< the end died, or cannot be trusted
  Instant unconsumed_since = kNever;
  Instant full_since = kNever;  ///< frames to a group find no room in its ring
  Instant liveness_checked{};
  std::uint32_t rung_at_turn = 1;  ///< the peer's turn count when its bell was last rung; odd values never match
  std::uint32_t stalled_turn = 0;  ///< turn count at the last look of peer_stalled()
};

struct CablePort::CableRoute : Route {
  IpAddress destination;
  Qpn dest_qpn;
  int end = -1;               ///< -1: nobody has the address, or it is a group
  std::uint64_t members = 0;  ///< of a group: a bit for each end that hears it
  std::uint64_t targets = 0;  ///< of the reservation under way: those that get a copy
};

}  // namespace roci
