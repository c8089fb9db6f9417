#include "stack/qp/path.h"

#include <cstring>

#include "stack/base/bytes.h"
#include "stack/wire/icrc.h"
#include "stack/wire/traffic_class.h"

namespace roci {
namespace {

constexpr std::uint16_t kDefaultPkey = 0xffff;
constexpr std::size_t kIpv4TotalLengthOffset = 2;
constexpr std::size_t kIpv4ChecksumOffset = 10;
constexpr std::size_t kIpv6PayloadLengthOffset = 4;
constexpr std::size_t kUdpLengthOffset = 4;
constexpr std::uint32_t kIcrcBytes = 4;

std::uint16_t fold(std::uint32_t sum) {
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>((sum & 0xffff) + (sum >> 16));
}

std::uint32_t pad_bytes(std::uint32_t payload_bytes) { return (4 - payload_bytes % 4) % 4; }

/// BTH, extension headers, payload and pad.
std::uint32_t transport_bytes(const PacketPlan& plan) {
  const auto& info = opcode_info(static_cast<std::uint8_t>(plan.opcode));
  return static_cast<std::uint32_t>(Bth::kSize) + info.extension_bytes + plan.payload_bytes +
         pad_bytes(plan.payload_bytes);
}

}  // namespace

std::uint16_t udp_source_port(std::uint32_t flow_label, Qpn local, Qpn remote) {
  std::uint64_t label = flow_label;
  if (label == 0) {
    label = std::uint64_t{local.value} * remote.value;
    label ^= label >> 20;
    label ^= label >> 40;
    label &= 0xf'ffff;
  }
  return static_cast<std::uint16_t>(0xc000 | ((label & 0x3fff) ^ (label >> 14)));
}

void Path::set(const IpAddress& source, const AddressVector& av, std::uint16_t udp_port, Qpn dest_qpn,
               bool ecn_capable) {
  source_ = source;
  destination_ = av.dgid;
  dest_qpn_ = dest_qpn;
  is_v4_ = av.dgid.is_v4();
  traffic_class_ = av.traffic_class;
  flow_label_ = av.flow_label;
  data_traffic_class_ = ecn_capable ? with_ecn(av.traffic_class, Ecn::kEct0) : av.traffic_class;
  l3_bytes_ = is_v4_ ? Ipv4Header::kSize : Ipv6Header::kSize;
  headers_ = {};
  std::byte* out = headers_.data();
  // A hop limit of 0 would never leave the host; applications that leave it so mean "the usual".
  const std::uint8_t hops = av.hop_limit == 0 ? 64 : av.hop_limit;
  if (is_v4_) {
    out[0] = std::byte{0x45};
    out[1] = std::byte{av.traffic_class};
    store_be<std::uint16_t>(out + 6, 0x4000);  // don't fragment
    out[8] = std::byte{hops};
    out[9] = std::byte{kIpProtocolUdp};
    std::memcpy(out + 12, source.bytes.data() + 12, 4);
    std::memcpy(out + 16, av.dgid.bytes.data() + 12, 4);
    std::memcpy(reverse_.data(), out + 16, 4);
    std::memcpy(reverse_.data() + 4, out + 12, 4);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < Ipv4Header::kSize; i += 2) sum += load_be<std::uint16_t>(out + i);
    checksum_base_ = fold(sum);
  } else {
    store_be<std::uint32_t>(out, 6u << 28 | std::uint32_t{av.traffic_class} << 20 | (av.flow_label & 0xf'ffff));
    out[6] = std::byte{kIpProtocolUdp};
    out[7] = std::byte{hops};
    std::memcpy(out + 8, source.bytes.data(), 16);
    std::memcpy(out + 24, av.dgid.bytes.data(), 16);
    std::memcpy(reverse_.data(), out + 24, 16);
    std::memcpy(reverse_.data() + 16, out + 8, 16);
  }
  store_be<std::uint16_t>(out + l3_bytes_, udp_port);
  store_be<std::uint16_t>(out + l3_bytes_ + 2, kRoceUdpPort);
}

std::byte* Path::open(std::byte* frame, const Route& route, const PacketPlan& plan) const {
  std::memcpy(frame, route.l2.data(), route.l2.size());
  std::byte* l3 = frame + route.l2_bytes;
  const std::uint32_t udp_bytes = static_cast<std::uint32_t>(UdpHeader::kSize) + transport_bytes(plan) + kIcrcBytes;
  if (is_v4_) {
    std::memcpy(l3, headers_.data(), Ipv4Header::kSize + UdpHeader::kSize);
    const auto total = static_cast<std::uint16_t>(Ipv4Header::kSize + udp_bytes);
    store_be<std::uint16_t>(l3 + kIpv4TotalLengthOffset, total);
    store_be<std::uint16_t>(l3 + kIpv4ChecksumOffset,
                            static_cast<std::uint16_t>(~fold(std::uint32_t{checksum_base_} + total)));
  } else {
    std::memcpy(l3, headers_.data(), Ipv6Header::kSize + UdpHeader::kSize);
    store_be<std::uint16_t>(l3 + kIpv6PayloadLengthOffset, static_cast<std::uint16_t>(udp_bytes));
  }
  if (plan.carries_data && data_traffic_class_ != traffic_class_) set_traffic_class(l3, is_v4_, data_traffic_class_);
  std::byte* udp = l3 + l3_bytes_;
  store_be<std::uint16_t>(udp + kUdpLengthOffset, static_cast<std::uint16_t>(udp_bytes));
  std::byte* bth = udp + UdpHeader::kSize;
  Bth header;
  header.opcode = static_cast<std::uint8_t>(plan.opcode);
  header.solicited = plan.solicited;
  header.pad_count = static_cast<std::uint8_t>(pad_bytes(plan.payload_bytes));
  header.pkey = kDefaultPkey;
  header.dest_qpn = dest_qpn_;
  header.ack_req = plan.ack_requested;
  header.becn = plan.becn;
  header.psn = plan.psn;
  header.write(bth);
  return bth + Bth::kSize;
}

std::byte* Path::open_datagram(std::byte* frame, const Route& route, const PacketPlan& plan, Qpn source,
                               Qpn target) const {
  constexpr std::size_t kDestQpnOffset = 5;
  std::byte* end = open(frame, route, plan);
  std::byte* bth = end - Bth::kSize;
  store_be24(bth + kDestQpnOffset, target.value);
  store_be<std::uint16_t>(bth - UdpHeader::kSize, udp_source_port(flow_label_, source, target));
  return end;
}

std::uint32_t Path::build_cnp(std::byte* frame, const Route& route, std::uint8_t dscp) const {
  const PacketPlan plan{.opcode = Opcode::kCnp, .psn = Psn{0}, .becn = true};
  std::byte* reserved = open(frame, route, plan);
  std::memset(reserved, 0, opcode_info(Opcode::kCnp).extension_bytes);
  set_traffic_class(frame + route.l2_bytes, is_v4_, static_cast<std::uint8_t>(dscp << 2));
  return close(frame, route, plan);
}

std::uint32_t Path::close(std::byte* frame, const Route& route, const PacketPlan& plan) const {
  std::byte* l3 = frame + route.l2_bytes;
  const std::uint32_t l3_to_icrc = l3_bytes_ + static_cast<std::uint32_t>(UdpHeader::kSize) + transport_bytes(plan);
  const std::uint32_t frame_bytes = route.l2_bytes + l3_to_icrc + kIcrcBytes;
  if (route.elides_payload && plan.payload_bytes > 0) return frame_bytes;
  const std::uint32_t pad = pad_bytes(plan.payload_bytes);
  std::memset(l3 + l3_to_icrc - pad, 0, pad);
  store_icrc(l3 + l3_to_icrc, compute_icrc(l3, is_v4_, l3_to_icrc));
  return frame_bytes;
}

}  // namespace roci
