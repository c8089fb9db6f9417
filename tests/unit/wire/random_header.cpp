#include "tests/unit/wire/random_header.h"

namespace roci::test {

std::uint64_t Draw::u64() { return random_.next(); }

std::uint64_t Draw::below(std::uint64_t bound) { return random_.below(bound); }

std::vector<std::byte> Draw::bytes(std::size_t count) {
  std::vector<std::byte> values(count);
  for (std::byte& value : values) value = std::byte{u8()};
  return values;
}

void Draw::fill(std::span<std::uint8_t> values) {
  for (std::uint8_t& value : values) value = u8();
}

void draw(Draw& from, EthernetHeader& to) {
  to = {.destination = {from.octets<6>()}, .source = {from.octets<6>()}, .ether_type = from.u16()};
}
void draw(Draw& from, VlanTag& to) { to = {.tci = from.u16(), .ether_type = from.u16()}; }
void draw(Draw& from, Ipv4Header& to) {
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
void draw(Draw& from, Ipv6Header& to) {
  to = {.version = from.bits(4),
        .traffic_class = from.u8(),
        .flow_label = from.u32() & 0xf'ffff,
        .payload_bytes = from.u16(),
        .next_header = from.u8(),
        .hop_limit = from.u8(),
        .source = {from.octets<16>()},
        .destination = {from.octets<16>()}};
}
void draw(Draw& from, UdpHeader& to) {
  to = {.source_port = from.u16(), .destination_port = from.u16(), .bytes = from.u16(), .checksum = from.u16()};
}
void draw(Draw& from, PfcFrame& to) {
  to = {.opcode = from.u16(), .class_enable = from.u16()};
  for (std::uint16_t& quanta : to.time_quanta) quanta = from.u16();
}
void draw(Draw& from, Bth& to) {
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
void draw(Draw& from, Reth& to) { to = {from.u64(), RKey{from.u32()}, from.u32()}; }
void draw(Draw& from, Aeth& to) { to = {from.u8(), from.u24()}; }
void draw(Draw& from, AtomicEth& to) { to = {from.u64(), RKey{from.u32()}, from.u64(), from.u64()}; }
void draw(Draw& from, AtomicAckEth& to) { to = {from.u64()}; }
void draw(Draw& from, ImmDt& to) { to = {from.u32()}; }
void draw(Draw& from, Ieth& to) { to = {RKey{from.u32()}}; }
void draw(Draw& from, Deth& to) { to = {from.u32(), from.u8(), Qpn{from.u24()}}; }
void draw(Draw& from, XrcEth& to) { to = {from.u8(), from.u24()}; }
void draw(Draw& from, CnpReserved& to) {
  for (std::byte& value : to.bytes) value = std::byte{from.u8()};
}

}  // namespace roci::test
