#include "tests/unit/wire/random_packet.h"

#include "stack/wire/icrc.h"
#include "stack/wire/opcodes.h"

namespace roci::test {
namespace {

/// Appends headers to a frame.
class FrameWriter {
 public:
  template <class T>
  void put(const T& header) {
    frame_.resize(frame_.size() + T::kSize);
    header.write(frame_.data() + frame_.size() - T::kSize);
  }
  void put_bytes(const std::vector<std::byte>& bytes) { frame_.insert(frame_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> take() { return std::move(frame_); }

 private:
  std::vector<std::byte> frame_;
};

void put_ip(FrameWriter& writer, const PacketValues& packet, std::size_t udp_bytes) {
  if (packet.is_v4) {
    Ipv4Header ip{.version_ihl = 0x45,
                  .traffic_class = packet.traffic_class,
                  .total_bytes = static_cast<std::uint16_t>(Ipv4Header::kSize + udp_bytes),
                  .flags_fragment = Ipv4Header::kDontFragment,
                  .ttl = packet.ttl,
                  .protocol = 17,
                  .source = packet.source.v4_host_order(),
                  .destination = packet.destination.v4_host_order()};
    std::vector<std::byte> bytes(Ipv4Header::kSize);
    ip.write(bytes.data());
    ip.checksum = internet_checksum(bytes);
    return writer.put(ip);
  }
  writer.put(Ipv6Header{.traffic_class = packet.traffic_class,
                        .flow_label = packet.flow_label,
                        .payload_bytes = static_cast<std::uint16_t>(udp_bytes),
                        .next_header = 17,
                        .hop_limit = packet.ttl,
                        .source = packet.source,
                        .destination = packet.destination});
}

void put_extensions(FrameWriter& writer, const PacketValues& packet) {
  const OpcodeInfo& info = opcode_info(packet.bth.opcode);
  if (info.has(Extension::kXrcEth)) writer.put(packet.xrc_eth);
  if (info.has(Extension::kDeth)) writer.put(packet.deth);
  if (info.has(Extension::kReth)) writer.put(packet.reth);
  if (info.has(Extension::kAtomicEth)) writer.put(packet.atomic_eth);
  if (info.has(Extension::kAeth)) writer.put(packet.aeth);
  if (info.has(Extension::kAtomicAckEth)) writer.put(packet.atomic_ack_eth);
  if (info.has(Extension::kImmDt)) writer.put(packet.imm_dt);
  if (info.has(Extension::kIeth)) writer.put(packet.ieth);
  if (info.has(Extension::kCnpReserved)) writer.put(packet.cnp_reserved);
}

}  // namespace

PacketValues random_packet(Draw& from, std::uint8_t opcode, bool is_v4) {
  PacketValues packet{.is_v4 = is_v4,
                      .traffic_class = from.u8(),
                      .ttl = from.u8(),
                      .flow_label = from.u32() & 0xf'ffff,
                      .udp_source_port = from.u16(),
                      .udp_checksum = from.u16(),
                      .trailer_bytes = from.below(20)};
  draw(from, packet.ethernet);
  packet.ethernet.ether_type = is_v4 ? 0x0800 : 0x86dd;
  if (from.flag()) packet.vlan_tci = from.u16();
  packet.source = is_v4 ? IpAddress::v4(from.u32()) : IpAddress{from.octets<16>()};
  packet.destination = is_v4 ? IpAddress::v4(from.u32()) : IpAddress{from.octets<16>()};
  draw(from, packet.bth);
  packet.bth.opcode = opcode;
  packet.bth.tver = 0;
  draw(from, packet.xrc_eth);
  draw(from, packet.deth);
  draw(from, packet.reth);
  draw(from, packet.atomic_eth);
  draw(from, packet.aeth);
  draw(from, packet.atomic_ack_eth);
  draw(from, packet.imm_dt);
  draw(from, packet.ieth);
  draw(from, packet.cnp_reserved);
  if (opcode_info(opcode).may_carry_payload()) packet.payload = from.bytes(from.below(70));
  packet.bth.pad_count = static_cast<std::uint8_t>(-packet.payload.size() & 3);
  return packet;
}

std::uint16_t internet_checksum(const std::vector<std::byte>& header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i) sum += std::to_integer<std::uint32_t>(header[i]) << (i % 2 ? 0 : 8);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

std::vector<std::byte> emit_l3(const PacketValues& packet) {
  const std::size_t udp_bytes = UdpHeader::kSize + Bth::kSize + opcode_info(packet.bth.opcode).extension_bytes +
                                packet.payload.size() + packet.bth.pad_count + sizeof(std::uint32_t);
  FrameWriter writer;
  put_ip(writer, packet, udp_bytes);
  writer.put(UdpHeader{.source_port = packet.udp_source_port,
                       .destination_port = 4791,
                       .bytes = static_cast<std::uint16_t>(udp_bytes),
                       .checksum = packet.udp_checksum});
  writer.put(packet.bth);
  put_extensions(writer, packet);
  writer.put_bytes(packet.payload);
  writer.put_bytes(std::vector<std::byte>(packet.bth.pad_count));
  return writer.take();
}

std::vector<std::byte> emit(const PacketValues& packet) {
  FrameWriter writer;
  EthernetHeader ethernet = packet.ethernet;
  if (packet.vlan_tci) ethernet.ether_type = 0x8100;
  writer.put(ethernet);
  if (packet.vlan_tci) writer.put(VlanTag{.tci = *packet.vlan_tci, .ether_type = packet.ethernet.ether_type});
  const std::vector<std::byte> l3 = emit_l3(packet);
  writer.put_bytes(l3);
  std::vector<std::byte> icrc(sizeof(std::uint32_t));
  store_icrc(icrc.data(), compute_icrc(l3.data(), packet.is_v4, static_cast<std::uint32_t>(l3.size())));
  writer.put_bytes(icrc);
  writer.put_bytes(std::vector<std::byte>(packet.trailer_bytes, std::byte{0xa5}));
  return writer.take();
}

}  // namespace roci::test
