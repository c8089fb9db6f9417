// Random values of every header, and whole packets made of them.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "stack/base/random.h"
#include "stack/wire/icrc.h"
#include "stack/wire/packet.h"

namespace roci::test {

/// Draws of the width that is asked for.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::uint64_t u64() { return random_.next(); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(random_.next()); }
  std::uint32_t u24() { return u32() & 0xff'ffff; }
  std::uint16_t u16() { return static_cast<std::uint16_t>(random_.next()); }
  std::uint8_t u8() { return static_cast<std::uint8_t>(random_.next()); }
  std::uint8_t bits(unsigned width) { return static_cast<std::uint8_t>(random_.below(1u << width)); }
  bool flag() { return random_.below(2) != 0; }
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  template <std::size_t kCount>
  std::array<std::uint8_t, kCount> octets() {
    std::array<std::uint8_t, kCount> values;
    for (std::uint8_t& value : values) value = u8();
    return values;
  }
  std::vector<std::byte> bytes(std::size_t count) {
    std::vector<std::byte> values(count);
    for (std::byte& value : values) value = std::byte{u8()};
    return values;
  }

 private:
  Random random_;
};

inline void draw(Draw& from, EthernetHeader& to) {
  to = {.destination = {from.octets<6>()}, .source = {from.octets<6>()}, .ether_type = from.u16()};
}
inline void draw(Draw& from, VlanTag& to) { to = {.tci = from.u16(), .ether_type = from.u16()}; }
inline void draw(Draw& from, Ipv4Header& to) {
  to = {.version_ihl = from.u8(),
        .traffic_class = from.u8(),
        .total_bytes = from.u16(),
        .identification = from.u16(),
        .flags_fragment = from.u16(),
        .ttl = from.u8(),
        .protocol = from.u8(),
        .checksum = from.u16(),
        .source = from.u32(),
        .destination = from.u32()};
}
inline void draw(Draw& from, Ipv6Header& to) {
  to = {.version = from.bits(4),
        .traffic_class = from.u8(),
        .flow_label = from.u32() & 0xf'ffff,
        .payload_bytes = from.u16(),
        .next_header = from.u8(),
        .hop_limit = from.u8(),
        .source = {from.octets<16>()},
        .destination = {from.octets<16>()}};
}
inline void draw(Draw& from, UdpHeader& to) {
  to = {.source_port = from.u16(), .destination_port = from.u16(), .bytes = from.u16(), .checksum = from.u16()};
}
inline void draw(Draw& from, PfcFrame& to) {
  to = {.opcode = from.u16(), .class_enable = from.u16()};
  for (std::uint16_t& quanta : to.time_quanta) quanta = from.u16();
}
inline void draw(Draw& from, Bth& to) {
  to = {.opcode = from.u8(),
        .solicited = from.flag(),
        .mig_req = from.flag(),
        .pad_count = from.bits(2),
        .tver = from.bits(4),
        .pkey = from.u16(),
        .fecn = from.flag(),
        .becn = from.flag(),
        .reserved6 = from.bits(6),
        .dest_qpn = Qpn{from.u24()},
        .ack_req = from.flag(),
        .reserved7 = from.bits(7),
        .psn = Psn(from.u24())};
}
inline void draw(Draw& from, Reth& to) { to = {from.u64(), RKey{from.u32()}, from.u32()}; }
inline void draw(Draw& from, Aeth& to) { to = {from.u8(), from.u24()}; }
inline void draw(Draw& from, AtomicEth& to) { to = {from.u64(), RKey{from.u32()}, from.u64(), from.u64()}; }
inline void draw(Draw& from, AtomicAckEth& to) { to = {from.u64()}; }
inline void draw(Draw& from, ImmDt& to) { to = {from.u32()}; }
inline void draw(Draw& from, Ieth& to) { to = {RKey{from.u32()}}; }
inline void draw(Draw& from, Deth& to) { to = {from.u32(), from.u8(), Qpn{from.u24()}}; }
inline void draw(Draw& from, XrcEth& to) { to = {from.u8(), from.u24()}; }
inline void draw(Draw& from, CnpReserved& to) {
  for (std::byte& value : to.bytes) value = std::byte{from.u8()};
}

/// A packet as values. Lengths, EtherTypes, the pad count, the IPv4 checksum and the ICRC follow from the rest.
struct PacketValues {
  EthernetHeader ethernet;
  std::optional<std::uint16_t> vlan_tci;
  bool is_v4 = true;
  std::uint8_t traffic_class = 0;
  std::uint8_t ttl = 64;
  std::uint32_t flow_label = 0;
  IpAddress source;
  IpAddress destination;
  std::uint16_t udp_source_port = 0;
  std::uint16_t udp_checksum = 0;
  Bth bth;
  XrcEth xrc_eth;
  Deth deth;
  Reth reth;
  AtomicEth atomic_eth;
  Aeth aeth;
  AtomicAckEth atomic_ack_eth;
  ImmDt imm_dt;
  Ieth ieth;
  CnpReserved cnp_reserved;
  std::vector<std::byte> payload;
  std::size_t trailer_bytes = 0;  ///< Ethernet padding after the ICRC
};

inline PacketValues random_packet(Draw& from, std::uint8_t opcode, bool is_v4) {
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
  std::vector<std::byte>& bytes() { return frame_; }

 private:
  std::vector<std::byte> frame_;
};

inline std::uint16_t internet_checksum(const std::vector<std::byte>& header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i) sum += std::to_integer<std::uint32_t>(header[i]) << (i % 2 ? 0 : 8);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

inline void put_ip(FrameWriter& writer, const PacketValues& packet, std::size_t udp_bytes) {
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

inline void put_extensions(FrameWriter& writer, const PacketValues& packet) {
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

/// From the IP header up to the ICRC, without it.
inline std::vector<std::byte> emit_l3(const PacketValues& packet) {
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

inline std::vector<std::byte> emit(const PacketValues& packet) {
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
