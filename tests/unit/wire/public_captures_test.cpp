// Packets of other stacks and of hardware, which are not ours to hand out: they lie in the folder that the environment
// variable ROCI_PUBLIC_CAPTURES names, as captures, `decode/` by tshark, `vectors.json` and `aeth_tables.json`.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/golden/captures.h"
#include "tests/unit/wire/decode_check.h"
#include "tests/unit/wire/parsed_frame.h"

namespace roci::test {
namespace {

class PublicCaptures : public testing::Test {
 protected:
  void SetUp() override {
    const auto folder = public_captures_folder();
    if (!folder) GTEST_SKIP() << "ROCI_PUBLIC_CAPTURES does not name a folder with captures";
    folder_ = *folder;
  }

  nlohmann::json read_json(const char* name) const {
    std::ifstream file(folder_ / name);
    return nlohmann::json::parse(file);
  }

  std::filesystem::path folder_;
};

FrameBytes from_hex(const std::string& hex) {
  FrameBytes bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST_F(PublicCaptures, every_packet__is_read_as_tshark_reads_it) {
  std::size_t captures = 0;
  std::size_t packets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    if (!entry.path().extension().string().starts_with(".pcap") || name.starts_with("vectors_")) continue;
    packets += expect_capture(entry.path());
    ++captures;
  }
  EXPECT_GT(captures, 0u);
  EXPECT_GT(packets, 0u);
}

/// What parsing says of a frame that carries no RoCE v2 packet of its own.
ParseStatus expected_status(const nlohmann::json& vector) {
  const std::string id = vector["id"];
  if (id.find("vxlan") != std::string::npos || id == "hls-ack") return ParseStatus::kNotRoce;
  if (vector["icrc"] == "none") return ParseStatus::kPfc;
  return vector["encap"] == "v1" ? ParseStatus::kNotIp : ParseStatus::kOk;
}

/// Two of the vectors lack the checksum of their IPv4 header: they must be refused until it is there.
void fill_in_missing_checksum(FrameBytes& packet) {
  std::byte* const field = packet.data() + 10;
  if (load_be<std::uint16_t>(field) != 0) return;
  EXPECT_EQ(ParsedFrame(packet, false).status, ParseStatus::kBadIpHeader);
  store_be(field, static_cast<std::uint16_t>(~ipv4_header_sum(packet.data())));
}

void expect_bth(const Bth& bth, const nlohmann::json& vector) {
  EXPECT_EQ(bth.opcode, vector["opcode_byte"]);
  EXPECT_EQ(bth.dest_qpn.value, vector["dest_qp"]);
  EXPECT_EQ(bth.psn.value(), vector["psn"]);
  EXPECT_EQ(bth.ack_req, vector["ack_req"] == 1);
  EXPECT_EQ(bth.pad_count, vector["pad"]);
  EXPECT_EQ(bth.mig_req, vector["migration"] == 1);
  EXPECT_EQ(bth.solicited, vector["solicited"] == 1);
  EXPECT_EQ(bth.fecn, vector["fecn"] == 1);
  EXPECT_EQ(bth.becn, vector["becn"] == 1);
  EXPECT_EQ(bth.pkey, vector["p_key"]);
}

void expect_extensions(const PacketView& view, const nlohmann::json& vector) {
  const auto number = [](const nlohmann::json& text) { return std::stoull(text.get<std::string>(), nullptr, 16); };
  ASSERT_EQ(view.info->has(Extension::kReth), vector.contains("reth"));
  if (vector.contains("reth")) {
    EXPECT_EQ(view.reth().va, number(vector["reth"]["va"]));
    EXPECT_EQ(view.reth().rkey.value, number(vector["reth"]["rkey"]));
    EXPECT_EQ(view.reth().dma_length, vector["reth"]["length"]);
  }
  ASSERT_EQ(view.info->has(Extension::kAeth), vector.contains("aeth"));
  if (vector.contains("aeth")) {
    EXPECT_EQ(view.aeth().syndrome, vector["aeth_syndrome"]);
    EXPECT_EQ(view.aeth().msn, vector["msn"]);
  }
}

TEST_F(PublicCaptures, vectors__are_read_as_they_say_and_their_icrc_judged_as_they_say) {
  for (const nlohmann::json& vector : read_json("vectors.json")) {
    SCOPED_TRACE(vector["id"].get<std::string>());
    FrameBytes frame = from_hex(vector["hex"]);
    const bool has_ethernet = vector["layer"] == "ether";
    if (!has_ethernet) fill_in_missing_checksum(frame);
    const ParsedFrame parsed(frame, has_ethernet);
    ASSERT_EQ(parsed.status, expected_status(vector)) << name_of(parsed.status);
    if (parsed.status != ParseStatus::kOk) continue;
    EXPECT_EQ(parsed.view.is_v4, vector["encap"] == "v4");
    EXPECT_EQ(parsed.view.info->name, vector["opcode"]);
    expect_bth(parsed.view.bth, vector);
    expect_extensions(parsed.view, vector);
    EXPECT_EQ(rewritten_headers(parsed.view, frame),
              std::vector(frame.begin(), frame.begin() + parsed.view.payload_offset));
    EXPECT_EQ(parsed.icrc_is_right(), vector["icrc"] == "right");
    if (!vector.contains("icrc_right")) continue;
    const FrameBytes right = from_hex(vector["icrc_right"]);
    std::copy(right.begin(), right.end(), frame.begin() + parsed.view.icrc_offset);
    EXPECT_TRUE(parsed.icrc_is_right());
  }
}

TEST_F(PublicCaptures, vectors__frame_within_a_vxlan_frame) {
  constexpr std::size_t kOuterBytes = 14 + 4 + 20 + 8 + 8;  // Ethernet, tag, IPv4, UDP, VXLAN
  for (const nlohmann::json& vector : read_json("vectors.json")) {
    if (vector["id"] != "rocecli-vxlan-send-0") continue;
    const FrameBytes frame = from_hex(vector["hex"]);
    const ParsedFrame inner{std::span(frame).subspan(kOuterBytes)};
    ASSERT_EQ(inner.status, ParseStatus::kOk) << name_of(inner.status);
    EXPECT_TRUE(inner.icrc_is_right());
    EXPECT_TRUE(inner.view.has_vlan);
    EXPECT_EQ(inner.view.vlan_tci & 0xfff, 0);
    expect_bth(inner.view.bth, vector);
  }
}

TEST_F(PublicCaptures, vectors__pfc_and_pause_frames) {
  for (const nlohmann::json& vector : read_json("vectors.json")) {
    const FrameBytes frame = from_hex(vector["hex"]);
    if (vector["id"] == "pfc-sonic-tc3") {
      const PfcFrame pfc = PfcFrame::read(frame.data() + EthernetHeader::kSize);
      EXPECT_EQ(pfc.opcode, PfcFrame::kOpcode);
      EXPECT_EQ(pfc.class_enable, 0x0008);
      EXPECT_EQ(pfc.time_quanta, (std::array<std::uint16_t, 8>{0, 0, 0, 65535, 0, 0, 0, 0}));
    } else if (vector["id"] == "pause-hns3") {
      EXPECT_EQ(PfcFrame::read(frame.data() + EthernetHeader::kSize).opcode, 0x0001) << "PAUSE of 802.3x is not PFC";
    }
  }
}

TEST_F(PublicCaptures, aeth_tables__are_ours) {
  const nlohmann::json tables = read_json("aeth_tables.json");
  EXPECT_EQ(tables["ack_credit"].size(), 31u);
  for (const auto& [code, count] : tables["ack_credit"].items())
    EXPECT_EQ(credits(static_cast<std::uint8_t>(std::stoi(code))), count) << code;
  EXPECT_EQ(tables["rnr_timer_us"].size(), 32u);
  for (const auto& [code, time] : tables["rnr_timer_us"].items())
    EXPECT_EQ(rnr_timer(static_cast<std::uint8_t>(std::stoi(code))), microseconds(time.get<std::int64_t>())) << code;
}

}  // namespace
}  // namespace roci::test
