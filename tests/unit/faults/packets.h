// Whole RoCE v2 frames for tests of faults.
#pragma once

#include <vector>

#include "stack/base/bytes.h"
#include "stack/qp/path.h"
#include "stack/wire/aeth.h"

namespace roci::test {

using Bytes = std::vector<std::byte>;

/// A frame from 198.18.0.1 to 198.18.0.2 (or fd00::1 to fd00::2) with `opcode`, `psn`, `dest_qpn` and, where the opcode
/// has an AETH, `syndrome`.
inline Bytes make_frame(Opcode opcode, std::uint32_t psn, std::uint32_t dest_qpn = 5, std::uint8_t syndrome = 0,
                        bool is_v4 = true) {
  const IpAddress source =
      is_v4 ? IpAddress::v4(0xc612'0001) : IpAddress{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  const IpAddress target =
      is_v4 ? IpAddress::v4(0xc612'0002) : IpAddress{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  Path path;
  path.set(source, {.dgid = target, .traffic_class = 0x02}, 0xc000, Qpn{dest_qpn}, false);
  Route route;
  store_be<std::uint16_t>(route.l2.data() + 12, is_v4 ? 0x0800 : 0x86dd);
  Bytes frame(4272);
  PacketPlan plan{
      .opcode = opcode, .psn = Psn(psn), .payload_bytes = opcode_info(opcode).may_carry_payload() ? 64u : 0u};
  std::byte* extensions = path.open(frame.data(), route, plan);
  if (opcode_info(opcode).has(Extension::kAeth)) Aeth{.syndrome = syndrome}.write(extensions);
  frame.resize(path.close(frame.data(), route, plan));
  return frame;
}

inline Bytes make_ack(std::uint32_t psn, std::uint8_t syndrome) {
  return make_frame(Opcode::kRcAcknowledge, psn, 5, syndrome);
}

/// An ARP request's first bytes: a frame that is no RoCE packet.
inline Bytes make_arp() {
  Bytes frame(60);
  store_be<std::uint16_t>(frame.data() + 12, 0x0806);
  return frame;
}

}  // namespace roci::test
