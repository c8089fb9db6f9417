#include "stack/wire/packet.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/seed.h"
#include "tests/unit/wire/parsed_frame.h"
#include "tests/unit/wire/random_packet.h"

namespace roci::test {
namespace {

void expect_view(const PacketView& view, const PacketValues& packet) {
  EXPECT_EQ(view.is_v4, packet.is_v4);
  EXPECT_EQ(view.has_vlan, packet.vlan_tci.has_value());
  if (packet.vlan_tci) {
    EXPECT_EQ(view.vlan_tci, *packet.vlan_tci);
  }
  EXPECT_EQ(view.traffic_class, packet.traffic_class);
  EXPECT_EQ(view.ttl, packet.ttl);
  EXPECT_EQ(view.source(), packet.source);
  EXPECT_EQ(view.destination(), packet.destination);
  EXPECT_EQ(view.udp_source_port, packet.udp_source_port);
  EXPECT_EQ(view.bth, packet.bth);
  const OpcodeInfo& info = *view.info;
  if (info.has(Extension::kXrcEth)) {
    EXPECT_EQ(view.xrc_eth(), packet.xrc_eth);
  }
  if (info.has(Extension::kDeth)) {
    EXPECT_EQ(view.deth(), packet.deth);
  }
  if (info.has(Extension::kReth)) {
    EXPECT_EQ(view.reth(), packet.reth);
  }
  if (info.has(Extension::kAtomicEth)) {
    EXPECT_EQ(view.atomic_eth(), packet.atomic_eth);
  }
  if (info.has(Extension::kAeth)) {
    EXPECT_EQ(view.aeth(), packet.aeth);
  }
  if (info.has(Extension::kAtomicAckEth)) {
    EXPECT_EQ(view.atomic_ack_eth(), packet.atomic_ack_eth);
  }
  if (info.has(Extension::kImmDt)) {
    EXPECT_EQ(view.imm_dt(), packet.imm_dt);
  }
  if (info.has(Extension::kIeth)) {
    EXPECT_EQ(view.ieth(), packet.ieth);
  }
  if (info.has(Extension::kCnpReserved)) {
    EXPECT_EQ(view.cnp_reserved(), packet.cnp_reserved);
  }
}

TEST(ParsePacket, every_opcode__gives_back_the_values_that_were_sent) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed_note(seed));
  Draw from(seed);
  for (int round = 0; round < 200; ++round) {
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
      if (!opcode_info(static_cast<std::uint8_t>(opcode)).known) continue;
      SCOPED_TRACE(kOpcodes[opcode].name);
      const PacketValues packet = random_packet(from, static_cast<std::uint8_t>(opcode), from.flag());
      const std::vector<std::byte> frame = emit(packet);
      const ParsedFrame parsed(frame);
      ASSERT_EQ(parsed.status, ParseStatus::kOk);
      EXPECT_TRUE(parsed.icrc_is_right());
      expect_view(parsed.view, packet);
      EXPECT_EQ(parsed.view.icrc_offset + 4 + packet.trailer_bytes, frame.size());
      const auto payload = frame.begin() + parsed.view.payload_offset;
      EXPECT_EQ(std::vector(payload, payload + parsed.view.payload_bytes), packet.payload);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(ParsePacket, view__does_not_remember_the_packet_before) {
  Draw from(1);
  PacketValues tagged = random_packet(from, 0x04, true);
  tagged.vlan_tci = 0x6001;
  PacketValues plain = random_packet(from, 0x04, false);
  plain.vlan_tci.reset();
  const std::vector<std::byte> first = emit(tagged);
  const std::vector<std::byte> second = emit(plain);
  const std::vector<std::byte> third = emit_l3(plain);
  const auto head = [](const std::vector<std::byte>& frame) {
    return std::span(frame).first(std::min(frame.size(), kHeaderCopyBytes));
  };
  PacketView view;
  ASSERT_EQ(parse_packet(head(first), static_cast<std::uint32_t>(first.size()), &view), ParseStatus::kOk);
  EXPECT_TRUE(view.has_vlan);
  ASSERT_EQ(parse_packet(head(second), static_cast<std::uint32_t>(second.size()), &view), ParseStatus::kOk);
  expect_view(view, plain);
  EXPECT_EQ(view.vlan_tci, 0);
  ASSERT_EQ(parse_packet(head(first), static_cast<std::uint32_t>(first.size()), &view), ParseStatus::kOk);
  // Here without the ICRC, but with its four bytes of room in the lengths.
  std::vector<std::byte> whole = third;
  whole.resize(whole.size() + 4);
  ASSERT_EQ(parse_l3_packet(head(whole), static_cast<std::uint32_t>(whole.size()), false, &view), ParseStatus::kOk);
  EXPECT_FALSE(view.has_vlan);
  EXPECT_EQ(view.l3_offset, 0);
}

TEST(ParseL3Packet, gives_what_parse_packet_gives_less_the_ethernet_header) {
  Draw from(2);
  for (bool is_v4 : {true, false}) {
    PacketValues packet = random_packet(from, 0x0b, is_v4);
    packet.vlan_tci.reset();
    const std::vector<std::byte> frame = emit(packet);
    const std::span<const std::byte> l3 = std::span(frame).subspan(EthernetHeader::kSize);
    const ParsedFrame parsed(l3, false);
    ASSERT_EQ(parsed.status, ParseStatus::kOk);
    EXPECT_TRUE(parsed.icrc_is_right());
    expect_view(parsed.view, packet);
    EXPECT_EQ(parsed.view.payload_offset + EthernetHeader::kSize, ParsedFrame(frame).view.payload_offset);
  }
}

/// A SEND ONLY of 8 bytes without tag or trailer.
PacketValues plain_send(bool is_v4) {
  Draw from(3);
  PacketValues packet = random_packet(from, 0x04, is_v4);
  packet.vlan_tci.reset();
  packet.trailer_bytes = 0;
  packet.payload = from.bytes(8);
  packet.bth.pad_count = 0;
  return packet;
}

constexpr std::size_t kL3 = EthernetHeader::kSize;
constexpr std::size_t kUdpOverV4 = kL3 + Ipv4Header::kSize;
constexpr std::size_t kUdpOverV6 = kL3 + Ipv6Header::kSize;
constexpr std::size_t kBthOverV4 = kUdpOverV4 + UdpHeader::kSize;

void set_byte(std::vector<std::byte>& frame, std::size_t offset, int value) {
  frame.at(offset) = static_cast<std::byte>(value);
}
void set_be16(std::vector<std::byte>& frame, std::size_t offset, std::size_t value) {
  set_byte(frame, offset, static_cast<int>(value >> 8));
  set_byte(frame, offset + 1, static_cast<int>(value & 0xff));
}
void repair_checksum(std::vector<std::byte>& frame) {
  set_be16(frame, kL3 + 10, 0);
  set_be16(frame, kL3 + 10, internet_checksum({frame.begin() + kL3, frame.begin() + kUdpOverV4}));
}
/// Sets the lengths that IP and UDP tell, both to fit `udp_bytes`.
void set_lengths(std::vector<std::byte>& frame, bool is_v4, std::size_t udp_bytes) {
  set_be16(frame, is_v4 ? kL3 + 2 : kL3 + 4, is_v4 ? udp_bytes + Ipv4Header::kSize : udp_bytes);
  set_be16(frame, (is_v4 ? kUdpOverV4 : kUdpOverV6) + 4, udp_bytes);
  if (is_v4) repair_checksum(frame);
}

ParseStatus status_after(bool is_v4, const std::function<void(std::vector<std::byte>&)>& change) {
  std::vector<std::byte> frame = emit(plain_send(is_v4));
  EXPECT_EQ(ParsedFrame(frame).status, ParseStatus::kOk);
  change(frame);
  return ParsedFrame(frame).status;
}
ParseStatus status_with_bytes(bool is_v4, const std::vector<std::pair<std::size_t, int>>& bytes) {
  return status_after(is_v4, [&](std::vector<std::byte>& frame) {
    for (const auto& [offset, value] : bytes) set_byte(frame, offset, value);
    if (is_v4) repair_checksum(frame);
  });
}

TEST(ParsePacket, ether_type__says_what_is_not_for_us) {
  EXPECT_EQ(status_with_bytes(true, {{12, 0x08}, {13, 0x06}}), ParseStatus::kArp);
  EXPECT_EQ(status_with_bytes(true, {{12, 0x88}, {13, 0x08}}), ParseStatus::kPfc);
  EXPECT_EQ(status_with_bytes(true, {{12, 0x89}, {13, 0x15}}), ParseStatus::kRoceV1) << "RoCE v1";
  EXPECT_EQ(status_with_bytes(true, {{12, 0x00}, {13, 0x2e}}), ParseStatus::kNotIp) << "a length";
}

TEST(ParsePacket, ip_header__bad) {
  EXPECT_EQ(status_with_bytes(true, {{kL3, 0x46}}), ParseStatus::kBadIpHeader) << "options";
  EXPECT_EQ(status_with_bytes(true, {{kL3, 0x44}}), ParseStatus::kBadIpHeader) << "too short";
  EXPECT_EQ(status_with_bytes(true, {{kL3, 0x65}}), ParseStatus::kBadIpHeader) << "version 6 after 0x0800";
  EXPECT_EQ(status_with_bytes(false, {{kL3, 0x45}}), ParseStatus::kBadIpHeader) << "version 4 after 0x86dd";
  EXPECT_EQ(status_after(true, [](auto& frame) { frame[kL3 + 10] ^= std::byte{1}; }), ParseStatus::kBadIpHeader);
}

TEST(ParsePacket, fragments__are_refused_and_may_not_fragment_is_not_one) {
  EXPECT_EQ(status_with_bytes(true, {{kL3 + 6, 0x20}}), ParseStatus::kFragment) << "more fragments";
  EXPECT_EQ(status_with_bytes(true, {{kL3 + 6, 0x00}, {kL3 + 7, 0x01}}), ParseStatus::kFragment) << "offset 8";
  EXPECT_EQ(status_with_bytes(true, {{kL3 + 6, 0x1f}, {kL3 + 7, 0xff}}), ParseStatus::kFragment) << "last offset";
  EXPECT_EQ(status_with_bytes(true, {{kL3 + 6, 0x00}}), ParseStatus::kOk) << "may be fragmented, and was not";
  EXPECT_EQ(status_with_bytes(true, {{kL3 + 6, 0x40}}), ParseStatus::kOk);
  EXPECT_EQ(status_with_bytes(false, {{kL3 + 6, 44}}), ParseStatus::kFragment);
}

TEST(ParsePacket, other_protocols__are_not_roce) {
  EXPECT_EQ(status_with_bytes(true, {{kL3 + 9, 6}}), ParseStatus::kNotRoce) << "TCP";
  EXPECT_EQ(status_with_bytes(false, {{kL3 + 6, 0}}), ParseStatus::kNotRoce) << "hop-by-hop options";
  EXPECT_EQ(status_with_bytes(false, {{kL3 + 6, 43}}), ParseStatus::kNotRoce) << "routing header";
  EXPECT_EQ(status_with_bytes(true, {{kUdpOverV4 + 3, 0xb5}}), ParseStatus::kNotRoce) << "port 4789, VXLAN";
  EXPECT_EQ(status_with_bytes(false, {{kUdpOverV6 + 2, 0x13}}), ParseStatus::kNotRoce);
}

TEST(ParsePacket, lengths__that_contradict_each_other) {
  // 8 bytes UDP, 12 BTH, 8 payload, 4 ICRC.
  for (bool is_v4 : {true, false}) {
    const std::size_t udp = is_v4 ? kUdpOverV4 : kUdpOverV6;
    EXPECT_EQ(status_after(is_v4, [&](auto& frame) { set_be16(frame, udp + 4, 33); }), ParseStatus::kBadLength);
    EXPECT_EQ(status_after(is_v4, [&](auto& frame) { set_be16(frame, udp + 4, 31); }), ParseStatus::kBadLength);
    EXPECT_EQ(status_after(is_v4, [&](auto& frame) { set_be16(frame, udp + 4, 0); }), ParseStatus::kBadLength);
    for (std::size_t bytes = 0; bytes < 24; ++bytes)
      EXPECT_EQ(status_after(is_v4, [&](auto& frame) { set_lengths(frame, is_v4, bytes); }), ParseStatus::kBadLength);
    EXPECT_EQ(status_after(is_v4, [&](auto& frame) { set_lengths(frame, is_v4, 24); }), ParseStatus::kOk);
    EXPECT_EQ(status_after(is_v4, [&](auto& frame) { set_lengths(frame, is_v4, 30); }), ParseStatus::kBadLength)
        << "payload and pad that do not make up whole words";
    EXPECT_EQ(status_after(is_v4, [&](auto& frame) { set_lengths(frame, is_v4, 36); }), ParseStatus::kTruncated);
    EXPECT_EQ(status_after(is_v4, [&](auto& frame) { set_lengths(frame, is_v4, 0xffff - 20); }),
              ParseStatus::kTruncated);
  }
}

TEST(ParsePacket, padding_after_the_icrc__is_not_payload) {
  std::vector<std::byte> frame = emit(plain_send(true));
  frame.resize(frame.size() + 46);
  const ParsedFrame parsed(frame);
  EXPECT_TRUE(parsed.is_accepted());
  EXPECT_EQ(parsed.view.payload_bytes, 8u);
}

TEST(ParsePacket, opcode__must_be_known_and_have_its_headers) {
  EXPECT_EQ(status_with_bytes(true, {{kBthOverV4, 0x15}}), ParseStatus::kUnknownOpcode);
  EXPECT_EQ(status_with_bytes(true, {{kBthOverV4, 0x40}}), ParseStatus::kUnknownOpcode) << "RD";
  EXPECT_EQ(status_with_bytes(true, {{kBthOverV4, 0x66}}), ParseStatus::kUnknownOpcode);
  EXPECT_EQ(status_with_bytes(true, {{kBthOverV4, 0x80}}), ParseStatus::kUnknownOpcode);
  EXPECT_EQ(status_with_bytes(true, {{kBthOverV4, 0xff}}), ParseStatus::kUnknownOpcode);
  EXPECT_EQ(status_with_bytes(true, {{kBthOverV4, 0x0a}}), ParseStatus::kBadLength) << "no room for a RETH";
  EXPECT_EQ(status_with_bytes(true, {{kBthOverV4, 0x13}}), ParseStatus::kBadLength) << "no room for an AtomicETH";
  EXPECT_EQ(status_with_bytes(true, {{kBthOverV4, 0x64}}), ParseStatus::kOk) << "a DETH just fits";
}

TEST(ParsePacket, transport_version_and_pad) {
  for (int version = 1; version < 16; ++version)
    EXPECT_EQ(status_with_bytes(true, {{kBthOverV4 + 1, version}}), ParseStatus::kBadTransportVersion);
  EXPECT_EQ(status_with_bytes(true, {{kBthOverV4 + 1, 0x30}}), ParseStatus::kOk) << "8 bytes, 3 of them pad";
  EXPECT_EQ(status_with_bytes(true, {{kBthOverV4, 0x64}, {kBthOverV4 + 1, 0x10}}), ParseStatus::kBadPad)
      << "pad without payload";
}

TEST(ParsePacket, status__every_one_has_its_name) {
  std::vector<std::string_view> names;
  for (int status = 0; status <= static_cast<int>(ParseStatus::kBadPad); ++status)
    names.push_back(name_of(static_cast<ParseStatus>(status)));
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_FALSE(names[i].empty());
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(names[i], names[j]);
  }
}

}  // namespace
}  // namespace roci::test
