// What the fabric has to know of a frame, read from its headers once, where it enters.
#pragma once

#include <cstdint>

#include "drivers/fabric/frame.h"
#include "stack/egress/settings.h"

namespace roci::fabric {

/// Sets kind, priority, l3_offset, is_v4 and flow_hash. A frame that is not IP, or has no tag where the PCP is trusted,
/// gets priority 0.
void classify(Frame& frame, egress::Trust trust);

/// Spreads the bits of `value` over all bits of the result (the finalizer of MurmurHash3, by A. Appleby).
constexpr std::uint32_t mix(std::uint32_t value) {
  value ^= value >> 16;
  value *= 0x85eb'ca6b;
  value ^= value >> 13;
  value *= 0xc2b2'ae35;
  return value ^ value >> 16;
}

}  // namespace roci::fabric
