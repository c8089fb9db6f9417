#include "drivers/fabric/classify.h"

#include "stack/base/bytes.h"
#include "stack/wire/headers_l3.h"
#include "stack/wire/traffic_class.h"

namespace roci::fabric {
namespace {

/// Of `bytes`, a multiple of 4, on top of `hash`.
std::uint32_t hash_words(std::uint32_t hash, const std::byte* p, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 4) hash = mix(hash ^ load_be<std::uint32_t>(p + i)) + 0x9e37'79b9;
  return hash;
}

/// The 5-tuple: addresses, protocol, and the ports where UDP follows.
std::uint32_t flow_hash(const Frame& frame) {
  const std::byte* l3 = frame.bytes + frame.l3_offset;
  const std::size_t l3_bytes = frame.is_v4 ? Ipv4Header::kSize : Ipv6Header::kSize;
  const auto protocol = std::to_integer<std::uint8_t>(l3[frame.is_v4 ? 9 : 6]);
  std::uint32_t hash = frame.is_v4 ? hash_words(protocol, l3 + 12, 8) : hash_words(protocol, l3 + 8, 32);
  if (protocol == kIpProtocolUdp && frame.stored_bytes >= frame.l3_offset + l3_bytes + UdpHeader::kSize)
    hash = hash_words(hash, l3 + l3_bytes, 4);
  return hash;
}

}  // namespace

void classify(Frame& frame, egress::Trust trust) {
  frame.kind = FrameKind::kForwarded;
  if (frame.stored_bytes < EthernetHeader::kSize) return;
  auto ether_type = load_be<std::uint16_t>(frame.bytes + 12);
  if (ether_type == kEtherTypeMacControl) {
    frame.kind = FrameKind::kPfc;
    return;
  }
  std::size_t l3_offset = EthernetHeader::kSize;
  if (ether_type == kEtherTypeVlan && frame.stored_bytes >= EthernetHeader::kSize + VlanTag::kSize) {
    const VlanTag tag = VlanTag::read(frame.bytes + l3_offset);
    if (trust == egress::Trust::kPcp) frame.priority = tag.pcp();
    ether_type = tag.ether_type;
    l3_offset += VlanTag::kSize;
  }
  frame.is_v4 = ether_type == kEtherTypeIpv4;
  if (!frame.is_v4 && ether_type != kEtherTypeIpv6) return;
  if (frame.stored_bytes < l3_offset + (frame.is_v4 ? Ipv4Header::kSize : Ipv6Header::kSize)) return;
  frame.l3_offset = static_cast<std::uint8_t>(l3_offset);
  frame.flow_hash = flow_hash(frame);
  if (trust == egress::Trust::kDscp)
    frame.priority = static_cast<std::uint8_t>(traffic_class_at(frame.bytes + l3_offset, frame.is_v4) >> 5);
}

}  // namespace roci::fabric
