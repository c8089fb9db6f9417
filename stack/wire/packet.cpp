#include "stack/wire/packet.h"

#include <algorithm>
#include <array>

namespace roci {
namespace {

constexpr std::uint32_t kIcrcBytes = 4;

}  // namespace

std::string_view name_of(ParseStatus status) {
  static constexpr std::array<std::string_view, 13> kNames{"ok",
                                                           "truncated",
                                                           "not IP",
                                                           "ARP",
                                                           "PFC",
                                                           "bad IP header",
                                                           "fragment",
                                                           "not RoCE",
                                                           "bad length",
                                                           "unknown opcode",
                                                           "bad transport version",
                                                           "bad pad",
                                                           "RoCE v1"};
  return kNames[static_cast<std::size_t>(status)];
}

ParseStatus parse_transport(PacketView* view, std::uint32_t udp_payload_bytes) {
  if (udp_payload_bytes < Bth::kSize + kIcrcBytes) return ParseStatus::kBadLength;
  view->bth = Bth::read(view->header_.data() + view->bth_offset);
  view->info = &opcode_info(view->bth.opcode);
  if (!view->info->known) return ParseStatus::kUnknownOpcode;
  if (view->bth.tver != 0) return ParseStatus::kBadTransportVersion;
  const std::uint32_t headers = static_cast<std::uint32_t>(Bth::kSize) + view->info->extension_bytes;
  if (udp_payload_bytes < headers + kIcrcBytes) return ParseStatus::kBadLength;
  const std::uint32_t padded = udp_payload_bytes - headers - kIcrcBytes;
  if (padded % 4 != 0) return ParseStatus::kBadLength;
  if (view->bth.pad_count > padded) return ParseStatus::kBadPad;
  view->payload_offset = view->bth_offset + headers;
  view->payload_bytes = padded - view->bth.pad_count;
  view->icrc_offset = view->payload_offset + padded;
  return ParseStatus::kOk;
}

ParseStatus parse_from_l3(PacketView* view, std::uint32_t frame_bytes) {
  const std::byte* l3 = view->header_.data() + view->l3_offset;
  const std::uint32_t l3_bytes = view->is_v4 ? Ipv4Header::kSize : Ipv6Header::kSize;
  if (view->header_.size() < view->l3_offset + l3_bytes) return ParseStatus::kTruncated;
  std::uint32_t packet_bytes = 0;
  if (view->is_v4) {
    const Ipv4Header ip = Ipv4Header::read(l3);
    if (ip.version_ihl != 0x45 || ipv4_header_sum(l3) != 0xffff) return ParseStatus::kBadIpHeader;
    if ((ip.flags_fragment & Ipv4Header::kFragmentMask) != 0) return ParseStatus::kFragment;
    if (ip.protocol != kIpProtocolUdp) return ParseStatus::kNotRoce;
    packet_bytes = ip.total_bytes;
    view->traffic_class = ip.traffic_class;
    view->ttl = ip.ttl;
  } else {
    const Ipv6Header ip = Ipv6Header::read(l3);
    if (ip.version != 6) return ParseStatus::kBadIpHeader;
    constexpr std::uint8_t kFragmentHeader = 44;
    if (ip.next_header == kFragmentHeader) return ParseStatus::kFragment;
    if (ip.next_header != kIpProtocolUdp) return ParseStatus::kNotRoce;
    packet_bytes = std::uint32_t{ip.payload_bytes} + l3_bytes;
    view->traffic_class = ip.traffic_class;
    view->ttl = ip.hop_limit;
  }
  if (packet_bytes < l3_bytes + UdpHeader::kSize) return ParseStatus::kBadLength;
  if (view->l3_offset + packet_bytes > frame_bytes) return ParseStatus::kTruncated;
  // What is parsed below lies within the packet, and so within the copy: the headers are shorter than both.
  if (view->header_.size() < std::min<std::size_t>(view->l3_offset + packet_bytes, kHeaderCopyBytes))
    return ParseStatus::kTruncated;
  const UdpHeader udp = UdpHeader::read(l3 + l3_bytes);
  if (udp.destination_port != kRoceUdpPort) return ParseStatus::kNotRoce;
  if (udp.bytes != packet_bytes - l3_bytes) return ParseStatus::kBadLength;
  view->udp_source_port = udp.source_port;
  view->bth_offset = static_cast<std::uint8_t>(view->l3_offset + l3_bytes + UdpHeader::kSize);
  return parse_transport(view, udp.bytes - static_cast<std::uint32_t>(UdpHeader::kSize));
}

ParseStatus parse_packet(std::span<const std::byte> header, std::uint32_t frame_bytes, PacketView* view) {
  view->header_ = header;
  if (header.size() < EthernetHeader::kSize) return ParseStatus::kTruncated;
  std::uint16_t ether_type = load_be<std::uint16_t>(header.data() + 12);
  view->l3_offset = EthernetHeader::kSize;
  view->has_vlan = ether_type == kEtherTypeVlan;
  view->vlan_tci = 0;
  if (view->has_vlan) {
    if (header.size() < EthernetHeader::kSize + VlanTag::kSize) return ParseStatus::kTruncated;
    const VlanTag tag = VlanTag::read(header.data() + EthernetHeader::kSize);
    view->vlan_tci = tag.tci;
    view->l3_offset += VlanTag::kSize;
    ether_type = tag.ether_type;
  }
  switch (ether_type) {
    case kEtherTypeIpv4:
      view->is_v4 = true;
      return parse_from_l3(view, frame_bytes);
    case kEtherTypeIpv6:
      view->is_v4 = false;
      return parse_from_l3(view, frame_bytes);
    case kEtherTypeArp:
      return ParseStatus::kArp;
    case kEtherTypeMacControl:
      return ParseStatus::kPfc;
    case kEtherTypeRoceV1:
      return ParseStatus::kRoceV1;
    default:
      return ParseStatus::kNotIp;
  }
}

ParseStatus parse_l3_packet(std::span<const std::byte> header, std::uint32_t packet_bytes, bool is_v4,
                            PacketView* view) {
  view->header_ = header;
  view->l3_offset = 0;
  view->has_vlan = false;
  view->vlan_tci = 0;
  view->is_v4 = is_v4;
  return parse_from_l3(view, packet_bytes);
}

}  // namespace roci
