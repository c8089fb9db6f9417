// A packet on its way to a machine: parsed, its ICRC right, its QP found.
#pragma once

#include <cstddef>

#include "stack/base/types.h"
#include "stack/wire/packet.h"

namespace roci {

struct Inbound {
  const PacketView& view;
  const std::byte* payload;  ///< view.payload_bytes bytes, in the received frame
  Instant now;
};

}  // namespace roci
