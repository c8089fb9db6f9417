// Packets of Linux's soft-RoCE driver: see tests/golden/README.md.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tests/golden/captures.h"
#include "tests/unit/wire/decode_check.h"
#include "tests/unit/wire/parsed_frame.h"

namespace roci::test {
namespace {

TEST(GoldenCaptures, every_packet__is_read_as_tshark_reads_it) {
  std::size_t packets = 0;
  for (const std::filesystem::path& path : golden_captures()) packets += expect_capture(path);
  EXPECT_EQ(golden_captures().size(), 29u);
  EXPECT_EQ(packets, 1645u);
}

// The driver sends SENDs, WRITEs, READs, atomics, acknowledgements and datagrams; what is missing here is missing in
// the check above.
TEST(GoldenCaptures, opcodes__are_the_ones_that_the_driver_was_made_to_send) {
  std::set<int> seen;
  for (const std::filesystem::path& path : golden_captures())
    for (const FrameBytes& frame : read_capture(path).frames) seen.insert(ParsedFrame(frame).view.bth.opcode);
  EXPECT_EQ(seen, (std::set<int>{0,  1,  2,  4,  6,  7,  8,  9,  10, 11, 12, 13,  14, 15,
                                 16, 17, 18, 19, 20, 32, 33, 34, 38, 39, 40, 100, 101}));
}

TEST(GoldenCaptures, frames__have_neither_padding_nor_anything_after_the_icrc) {
  for (const std::filesystem::path& path : golden_captures()) {
    for (const FrameBytes& frame : read_capture(path).frames) {
      const ParsedFrame parsed(frame);
      ASSERT_EQ(parsed.view.icrc_offset + 4, frame.size()) << path;
      ASSERT_EQ(parsed.view.payload_offset + parsed.view.payload_bytes + parsed.view.bth.pad_count,
                parsed.view.icrc_offset);
    }
  }
}

// Where nothing is lost, what a requester sends to a QP is a legal sequence from the first packet on.
TEST(GoldenCaptures, follows__allows_every_step_of_a_real_requester) {
  std::size_t steps = 0;
  for (const std::filesystem::path& path : golden_captures()) {
    if (path.stem().string().ends_with("-loss") || path.stem() == "rc-rnr-nak") continue;
    std::map<std::tuple<IpAddress, IpAddress, Qpn, Transport>, Opcode> previous;
    for (const FrameBytes& frame : read_capture(path).frames) {
      const ParsedFrame parsed(frame);
      const PacketView& view = parsed.view;
      if (!view.info->is_request()) continue;
      const auto opcode = static_cast<Opcode>(view.bth.opcode);
      const auto [last, is_new] =
          previous.try_emplace({view.source(), view.destination(), view.bth.dest_qpn, view.info->transport}, opcode);
      EXPECT_TRUE(is_new ? view.info->is_first() : follows(last->second, opcode)) << path << " " << view.info->name;
      steps += is_new ? 0 : 1;
      last->second = opcode;
    }
  }
  EXPECT_GT(steps, 400u);
}

}  // namespace
}  // namespace roci::test
