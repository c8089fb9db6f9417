// How much a requester keeps outstanding.
#pragma once

#include <cstdint>

namespace roci {

/// In packets; READs and atomics count as the packets of their responses.
struct WindowPolicy {
  std::uint32_t packets = 128;
  std::uint32_t ack_every_packets = 32;  ///< an ACK is asked for at least this often within a message
  /// A READ of more packets is asked for in parts, so that what is outstanding stays well within half the PSN space.
  std::uint32_t read_packets = 1u << 22;
};

}  // namespace roci
