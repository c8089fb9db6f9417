// Frames that get past the first checks: made from a few numbers, or repaired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stack/base/types.h"
#include "stack/wire/address.h"
#include "tests/fuzz/input.h"

namespace roci::fuzz {

/// What a frame has to say to reach the logic of one QP.
struct Target {
  IpAddress source;       ///< the QP's peer
  IpAddress destination;  ///< the port
  Qpn qpn;
  Psn request_psn;   ///< the responder expects it
  Psn response_psn;  ///< the requester's oldest without an answer
  std::uint32_t mtu_bytes = 0;
  std::uint32_t write_left = 0;  ///< bytes of the WRITE that the responder is receiving
  std::uint32_t read_left = 0;   ///< bytes of the READ that the requester is waiting for
  RKey rkey;                     ///< of the step's region, as are these two
  std::uint64_t va = 0;
  std::uint64_t region_bytes = 0;
};

/// A packet in 11 bytes of input, so that a mutation changes what matters and payload costs nothing.
struct FrameTemplate {
  std::uint8_t opcode = 0;
  std::uint8_t psn_offset = 0;  ///< signed
  std::uint8_t flags = 0;       ///< Flag bits
  std::uint8_t syndrome = 0;    ///< of an AETH; also fills immediate data and payload
  std::uint16_t va_offset = 0;  ///< into the region; from its end if the top bit is set
  std::uint16_t dma_bytes = 0;
  std::uint16_t payload_bytes = 0;

  enum Flag : std::uint8_t {
    kAckRequested = 1,
    kSolicited = 2,
    kFits = 4,  ///< the payload is as long as the packet's place in its message wants it
    kFar = 8,   ///< as kFarPsn
    kWrongKey = 16,
    kWrongIcrc = 32,
    kCongestion = 64,  ///< BECN and FECN
    kLongRead = 128,   ///< dma_bytes counts 2^16 bytes
  };

  static FrameTemplate read(Input& input);
};

/// Puts right what `repairs` (FrameRepair bits) names; makes the frame longer or shorter where lengths need it.
void repair(std::vector<std::byte>& frame, std::uint8_t repairs, std::int8_t psn_offset, const Target& target);

std::vector<std::byte> make_frame(const FrameTemplate& from, const Target& target);

}  // namespace roci::fuzz
