// Frames cut, damaged and made up: nothing may be read beyond them, and nothing wrong may be taken for a packet.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <tuple>

#include "tests/golden/captures.h"
#include "tests/support/seed.h"
#include "tests/unit/wire/parsed_frame.h"
#include "tests/unit/wire/random_packet.h"

namespace roci::test {
namespace {

std::vector<FrameBytes> golden_frames() {
  std::vector<FrameBytes> frames;
  for (const std::filesystem::path& path : golden_captures())
    for (FrameBytes& frame : read_capture(path).frames) frames.push_back(std::move(frame));
  return frames;
}

/// A golden frame of each kind, by opcode, IP version, pad and length; and one of each opcode there is, made up.
std::vector<FrameBytes> frames_of_every_kind() {
  std::vector<FrameBytes> frames;
  std::set<std::tuple<int, bool, int, std::size_t>> seen;
  for (FrameBytes& frame : golden_frames()) {
    const ParsedFrame parsed(frame);
    if (seen.insert({parsed.view.bth.opcode, parsed.view.is_v4, parsed.view.bth.pad_count, frame.size()}).second)
      frames.push_back(std::move(frame));
  }
  Draw from(1);
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    if (!kOpcodes[opcode].known) continue;
    for (bool is_v4 : {true, false})
      frames.push_back(emit(random_packet(from, static_cast<std::uint8_t>(opcode), is_v4)));
  }
  return frames;
}

/// The bits of the byte at `offset` that may be flipped unseen: the link's own (the FCS guards them), and those that
/// routers change and the ICRC leaves out. IPv4's are guarded by its header checksum.
std::uint8_t unguarded_bits(const PacketView& view, std::size_t offset) {
  constexpr std::uint8_t kAll = 0xff;
  const bool is_mac_or_tag = offset < 12 || (view.has_vlan && (offset == 14 || offset == 15));
  const bool is_trailer = offset >= view.icrc_offset + 4;
  const bool is_udp_checksum = offset + 2 == view.bth_offset || offset + 1 == view.bth_offset;
  const bool is_congestion = offset == view.bth_offset + 4u;
  if (is_mac_or_tag || is_trailer || is_udp_checksum || is_congestion) return kAll;
  if (view.is_v4 || offset < view.l3_offset) return 0;
  switch (offset - view.l3_offset) {
    case 0:
      return 0x0f;
    case 1:
    case 2:
    case 3:
    case 7:
      return kAll;
    default:
      return 0;
  }
}

/// What the offsets of an accepted view must obey, whatever the bytes; and every accessor is used.
void expect_within(const PacketView& view, std::span<const std::byte> frame) {
  ASSERT_NE(view.info, nullptr);
  ASSERT_TRUE(view.info->known);
  ASSERT_EQ(view.payload_offset, view.bth_offset + Bth::kSize + view.info->extension_bytes);
  ASSERT_EQ(view.payload_offset + view.payload_bytes + view.bth.pad_count, view.icrc_offset);
  ASSERT_LE(view.icrc_offset + std::size_t{4}, frame.size());
  ASSERT_EQ(rewritten_headers(view, frame), std::vector(frame.begin(), frame.begin() + view.payload_offset));
}

TEST(Truncation, every_golden_frame_at_every_length__is_refused) {
  for (const FrameBytes& frame : golden_frames())
    for (std::size_t size = 0; size < frame.size(); ++size)
      ASSERT_NE(ParsedFrame(std::span(frame).first(size)).status, ParseStatus::kOk)
          << size << " bytes of " << frame.size();
}

// The caller breaks the contract and copies less of the frame than it should have.
TEST(Truncation, copy_that_is_too_short__is_refused) {
  for (const FrameBytes& frame : frames_of_every_kind()) {
    const std::size_t packet_bytes = ParsedFrame(frame).view.icrc_offset + 4;
    const std::size_t needed = std::min(packet_bytes, kHeaderCopyBytes);
    for (std::size_t size = 0; size <= needed; ++size) {
      const FrameBytes head(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
      PacketView view;
      const ParseStatus status = parse_packet(head, static_cast<std::uint32_t>(frame.size()), &view);
      ASSERT_EQ(status == ParseStatus::kOk, size == needed) << size << " of " << needed;
    }
  }
}

// Cut, but with lengths and checksum that fit what is left: only the opcode's own needs and the ICRC are against it.
TEST(Truncation, lengths_that_fit_what_is_left__never_leave_the_frame_and_fail_the_icrc) {
  for (const FrameBytes& frame : frames_of_every_kind()) {
    const ParsedFrame whole(frame);
    const std::size_t udp = whole.view.bth_offset - UdpHeader::kSize;
    const std::size_t l3 = whole.view.l3_offset;
    for (std::size_t size = udp; size < whole.view.icrc_offset + std::size_t{4}; ++size) {
      FrameBytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
      store_be(cut.data() + l3 + (whole.view.is_v4 ? 2 : 4),
               static_cast<std::uint16_t>(size - (whole.view.is_v4 ? l3 : udp)));
      if (size >= udp + UdpHeader::kSize) store_be(cut.data() + udp + 4, static_cast<std::uint16_t>(size - udp));
      if (whole.view.is_v4) {
        store_be(cut.data() + l3 + 10, std::uint16_t{0});
        store_be(cut.data() + l3 + 10, internet_checksum({cut.data() + l3, cut.data() + udp}));
      }
      const ParsedFrame parsed(cut);
      if (parsed.status != ParseStatus::kOk) continue;
      ASSERT_NO_FATAL_FAILURE(expect_within(parsed.view, cut));
      ASSERT_FALSE(parsed.icrc_is_right()) << size << " bytes of " << frame.size();
    }
  }
}

TEST(BitFlips, every_bit_of_frames_of_every_kind__is_refused_unless_routers_may_change_it) {
  for (FrameBytes& frame : frames_of_every_kind()) {
    const ParsedFrame whole(frame);
    ASSERT_TRUE(whole.is_accepted());
    for (std::size_t offset = 0; offset < frame.size(); ++offset) {
      for (int bit = 0; bit < 8; ++bit) {
        const auto mask = static_cast<std::byte>(1 << bit);
        frame[offset] ^= mask;
        const ParsedFrame flipped(frame);
        const bool is_accepted = flipped.is_accepted();
        frame[offset] ^= mask;
        const bool is_unguarded = (std::byte{unguarded_bits(whole.view, offset)} & mask) != std::byte{0};
        ASSERT_EQ(is_accepted, is_unguarded)
            << whole.view.info->name << " byte " << offset << " bit " << bit << ": " << name_of(flipped.status);
        if (!is_unguarded) continue;
        Bth bth = flipped.view.bth;
        std::tie(bth.fecn, bth.becn, bth.reserved6) =
            std::tie(whole.view.bth.fecn, whole.view.bth.becn, whole.view.bth.reserved6);
        ASSERT_EQ(bth, whole.view.bth);
        ASSERT_EQ(flipped.view.payload_offset, whole.view.payload_offset);
        ASSERT_EQ(flipped.view.payload_bytes, whole.view.payload_bytes);
      }
    }
  }
}

/// Puts IPv4's checksum right, so that damage gets past it.
void repair_ipv4_checksum(FrameBytes& frame) {
  const bool has_tag = frame[12] == std::byte{0x81} && frame[13] == std::byte{0};
  const std::size_t l3 = EthernetHeader::kSize + (has_tag ? VlanTag::kSize : 0);
  if (frame.size() < l3 + Ipv4Header::kSize || (frame[l3] >> 4) != std::byte{4}) return;
  store_be(frame.data() + l3 + 10, std::uint16_t{0});
  store_be(frame.data() + l3 + 10, internet_checksum({frame.data() + l3, frame.data() + l3 + Ipv4Header::kSize}));
}

TEST(Damage, random_bytes_in_the_headers__never_leave_the_frame) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed_note(seed));
  Draw from(seed);
  const std::vector<FrameBytes> frames = frames_of_every_kind();
  for (int round = 0; round < 200'000; ++round) {
    FrameBytes frame = frames[from.below(frames.size())];
    const std::size_t headers = std::min<std::size_t>(frame.size(), kHeaderCopyBytes);
    for (std::uint64_t changes = 1 + from.below(4); changes > 0; --changes)
      frame[from.below(headers)] = std::byte{from.u8()};
    if (from.below(4) == 0) frame.resize(std::max<std::size_t>(14, from.below(frame.size() + 40)));
    if (from.flag()) repair_ipv4_checksum(frame);
    frame.shrink_to_fit();
    const ParsedFrame parsed(frame);
    if (parsed.status == ParseStatus::kOk) {
      ASSERT_NO_FATAL_FAILURE(expect_within(parsed.view, frame));
    }
  }
}

TEST(Damage, noise__is_no_packet) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed_note(seed));
  Draw from(seed);
  for (int round = 0; round < 20'000; ++round) {
    const FrameBytes noise = from.bytes(from.below(200));
    ASSERT_NE(ParsedFrame(noise).status, ParseStatus::kOk);
    ASSERT_FALSE(ParsedFrame(noise, false).is_accepted());
  }
}

}  // namespace
}  // namespace roci::test
