#include "tests/unit/wire/decode_check.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/wire/parsed_frame.h"

namespace roci::test {
namespace {

struct Packet {
  const PacketView& view;
  std::span<const std::byte> frame;
};
using Reading = std::function<std::uint64_t(const Packet&)>;

std::string text_of(const IpAddress& address, bool is_v4) {
  char text[INET6_ADDRSTRLEN];
  const void* bytes = is_v4 ? address.bytes.data() + 12 : address.bytes.data();
  return inet_ntop(is_v4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
}

std::uint64_t virtual_address(const Packet& packet) {
  const PacketView& view = packet.view;
  return view.info->has(Extension::kReth) ? view.reth().va : view.atomic_eth().va;
}
std::uint64_t remote_key(const Packet& packet) {
  const PacketView& view = packet.view;
  return view.info->has(Extension::kReth) ? view.reth().rkey.value : view.atomic_eth().rkey.value;
}
std::uint64_t udp_bytes(const Packet& packet) {
  return packet.view.icrc_offset + 4 - (packet.view.bth_offset - UdpHeader::kSize);
}
/// tshark prints the four bytes in the order of the wire.
std::uint64_t icrc_as_printed(const Packet& packet) {
  return load_be<std::uint32_t>(packet.frame.data() + packet.view.icrc_offset);
}

/// tshark's name of a number, and how we come by it.
const std::map<std::string, Reading>& readings() {
  static const std::map<std::string, Reading> kReadings{
      {"frame.len", [](const Packet& p) { return p.frame.size(); }},
      {"ip.dsfield.ecn", [](const Packet& p) { return p.view.traffic_class & 3; }},
      {"ip.dsfield.dscp", [](const Packet& p) { return p.view.traffic_class >> 2; }},
      {"ip.ttl", [](const Packet& p) { return p.view.ttl; }},
      {"ipv6.tclass", [](const Packet& p) { return p.view.traffic_class; }},
      {"ipv6.hlim", [](const Packet& p) { return p.view.ttl; }},
      {"vlan.id", [](const Packet& p) { return p.view.has_vlan ? p.view.vlan_tci & 0xfff : UINT64_MAX; }},
      {"udp.srcport", [](const Packet& p) { return p.view.udp_source_port; }},
      {"udp.length", udp_bytes},
      {"infiniband.bth.opcode", [](const Packet& p) { return p.view.bth.opcode; }},
      {"infiniband.bth.se", [](const Packet& p) { return p.view.bth.solicited; }},
      {"infiniband.bth.m", [](const Packet& p) { return p.view.bth.mig_req; }},
      {"infiniband.bth.padcnt", [](const Packet& p) { return p.view.bth.pad_count; }},
      {"infiniband.bth.p_key", [](const Packet& p) { return p.view.bth.pkey; }},
      {"infiniband.bth.destqp", [](const Packet& p) { return p.view.bth.dest_qpn.value; }},
      {"infiniband.bth.a", [](const Packet& p) { return p.view.bth.ack_req; }},
      {"infiniband.bth.psn", [](const Packet& p) { return p.view.bth.psn.value(); }},
      {"infiniband.deth.q_key", [](const Packet& p) { return p.view.deth().qkey; }},
      {"infiniband.deth.srcqp", [](const Packet& p) { return p.view.deth().src_qpn.value; }},
      {"infiniband.reth.va", virtual_address},
      {"infiniband.reth.r_key", remote_key},
      {"infiniband.reth.dmalen", [](const Packet& p) { return p.view.reth().dma_length; }},
      {"infiniband.aeth.syndrome", [](const Packet& p) { return p.view.aeth().syndrome; }},
      {"infiniband.aeth.msn", [](const Packet& p) { return p.view.aeth().msn; }},
      {"infiniband.atomiceth.swapdt", [](const Packet& p) { return p.view.atomic_eth().swap_add; }},
      {"infiniband.atomiceth.cmpdt", [](const Packet& p) { return p.view.atomic_eth().compare; }},
      {"infiniband.atomicacketh.origremdt", [](const Packet& p) { return p.view.atomic_ack_eth().original; }},
      {"infiniband.invariant.crc", icrc_as_printed},
  };
  return kReadings;
}

/// A field that tshark shows if, and only if, the packet has the extension header.
constexpr std::pair<Extension, const char*> kExtensionFields[] = {
    {Extension::kDeth, "infiniband.deth.srcqp"},
    {Extension::kReth, "infiniband.reth.dmalen"},
    {Extension::kAeth, "infiniband.aeth.syndrome"},
    {Extension::kImmDt, "infiniband.immdt"},
    {Extension::kAtomicEth, "infiniband.atomiceth.swapdt"},
    {Extension::kAtomicAckEth, "infiniband.atomicacketh.origremdt"},
};

/// The immediate data is shown as the digits of its four bytes, twice.
void expect_immediate(const PacketView& view, const std::string& text) {
  const std::uint32_t raw = view.imm_dt().raw;
  std::byte bytes[4];
  std::memcpy(bytes, &raw, sizeof raw);
  EXPECT_EQ(load_be<std::uint32_t>(bytes), std::stoul(text.substr(0, text.find(',')), nullptr, 16));
}

}  // namespace

void expect_decode(const PacketView& view, std::span<const std::byte> frame, const DecodedFields& fields) {
  for (const auto& [extension, name] : kExtensionFields) {
    const auto field = fields.find(name);
    if (field == fields.end()) continue;
    ASSERT_EQ(view.info->has(extension), !field->second.empty()) << view.info->name << " " << name;
  }
  for (const auto& [name, text] : fields) {
    if (text.empty()) continue;
    if (name == "infiniband.immdt") {
      expect_immediate(view, text);
    } else if (name == "ip.src" || name == "ipv6.src") {
      EXPECT_EQ(text_of(view.source(), name == "ip.src"), text);
    } else if (name == "ip.dst" || name == "ipv6.dst") {
      EXPECT_EQ(text_of(view.destination(), name == "ip.dst"), text);
    } else {
      EXPECT_EQ(readings().at(name)({view, frame}), std::stoull(text, nullptr, 0)) << name;
    }
  }
}

std::size_t expect_capture(const std::filesystem::path& path) {
  const Capture capture = read_capture(path);
  const std::map<std::size_t, DecodedFields> decode = read_decode(path);
  for (std::size_t i = 0; i < capture.frames.size(); ++i) {
    const std::size_t number = i + 1;
    SCOPED_TRACE(capture.name + ", packet " + std::to_string(number));
    const FrameBytes& frame = capture.frames[i];
    const ParsedFrame parsed(frame, capture.has_ethernet);
    if (!decode.contains(number)) {
      EXPECT_NE(parsed.status, ParseStatus::kOk);
      continue;
    }
    EXPECT_EQ(parsed.status, ParseStatus::kOk) << name_of(parsed.status);
    if (parsed.status != ParseStatus::kOk) continue;
    EXPECT_TRUE(parsed.icrc_is_right());
    EXPECT_EQ(rewritten_headers(parsed.view, frame),
              std::vector(frame.begin(), frame.begin() + parsed.view.payload_offset));
    expect_decode(parsed.view, frame, decode.at(number));
  }
  return decode.size();
}

}  // namespace roci::test
