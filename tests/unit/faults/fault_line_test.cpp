#include "drivers/faults/fault_line.h"

#include <gtest/gtest.h>

#include <string>

#include "stack/wire/packet.h"
#include "tests/unit/faults/packets.h"

namespace roci {
namespace {

using test::Bytes;
using test::make_frame;

/// A line with the faults of a script; what leaves it is noted by PSN.
class Line {
 public:
  explicit Line(std::string_view text, std::uint32_t frames = 8)
      : injector_(script(text), 100), line(injector_, FaultDirection::kTx, frames) {}

  std::string put(std::uint32_t psn, std::uint32_t qpn = 5, Opcode opcode = Opcode::kRcSendOnly) {
    out_.clear();
    Bytes frame = make_frame(opcode, psn, qpn);
    line.put({.bytes = frame, .to = this}, now, [this](const FaultLine::Frame& leaving) { return note(leaving); });
    line.recycle();
    return out_;
  }
  std::string release() {
    out_.clear();
    line.release(now, [this](const FaultLine::Frame& leaving) { return note(leaving); });
    line.recycle();
    return out_;
  }

  Instant now{};
  bool has_room = true;

 private:
  static FaultScript script(std::string_view text) {
    FaultScript parsed;
    std::string error;
    EXPECT_TRUE(parse_fault_script(text, "test", &parsed, &error)) << error;
    return parsed;
  }
  bool note(const FaultLine::Frame& leaving) {
    if (!has_room) return false;
    EXPECT_EQ(leaving.to, this);
    PacketView view;
    const std::span<const std::byte> header = leaving.bytes.first(std::min(leaving.bytes.size(), kHeaderCopyBytes));
    EXPECT_EQ(parse_packet(header, static_cast<std::uint32_t>(leaving.bytes.size()), &view), ParseStatus::kOk);
    out_ += std::to_string(view.bth.psn.value()) + " ";
    return true;
  }

  std::string out_;
  FaultInjector injector_;

 public:
  FaultLine line;
};

TEST(FaultLine, put__without_faults_frames_pass) {
  Line line("");
  EXPECT_EQ(line.put(1), "1 ");
  EXPECT_EQ(line.line.next_deadline(), kNever);
  EXPECT_EQ(line.line.room(), 8u);
}

TEST(FaultLine, put__dropped_frames_do_not_leave) {
  Line line("drop nth=2");
  EXPECT_EQ(line.put(1), "1 ");
  EXPECT_EQ(line.put(2), "");
  EXPECT_EQ(line.put(3), "3 ");
}

TEST(FaultLine, put__duplicates_follow_at_once) {
  Line line("duplicate=2 nth=1");
  EXPECT_EQ(line.put(1), "1 1 1 ");
  EXPECT_EQ(line.put(2), "2 ");
}

TEST(FaultLine, release__delayed_frames_leave_when_due_in_order_of_time) {
  Line line("delay=5us nth=1\ndelay=2us nth=2");
  EXPECT_EQ(line.put(1), "");
  EXPECT_EQ(line.put(2), "");
  EXPECT_EQ(line.put(3), "3 ");
  EXPECT_EQ(line.line.next_deadline(), Instant{} + microseconds(2));
  EXPECT_EQ(line.line.room(), 6u);
  line.now = Instant{} + microseconds(2) - picoseconds(1);
  EXPECT_EQ(line.release(), "");
  line.now = Instant{} + microseconds(9);
  EXPECT_EQ(line.release(), "2 1 ");
  EXPECT_EQ(line.line.room(), 8u);
  EXPECT_EQ(line.line.next_deadline(), kNever);
}

TEST(FaultLine, put__reordered_frame_leaves_after_that_many_of_its_flow) {
  Line line("reorder=2 nth=1");
  EXPECT_EQ(line.put(1), "");
  EXPECT_EQ(line.put(2), "2 ");
  EXPECT_EQ(line.put(9, 6), "9 ");
  EXPECT_EQ(line.put(3), "3 1 ");
  EXPECT_EQ(line.put(4), "4 ");
}

TEST(FaultLine, release__reordered_frame_with_no_followers_leaves_in_the_end) {
  Line line("reorder=2 nth=1");
  EXPECT_EQ(line.put(1), "");
  line.now = line.now + FaultLine::kReorderPatience;
  EXPECT_EQ(line.line.next_deadline(), line.now);
  EXPECT_EQ(line.release(), "1 ");
}

TEST(FaultLine, put__without_room_further_on_the_frame_is_kept) {
  Line line("");
  line.has_room = false;
  EXPECT_EQ(line.put(1), "");
  EXPECT_EQ(line.release(), "");
  line.has_room = true;
  EXPECT_EQ(line.release(), "1 ");
}

TEST(FaultLine, put__full_line_loses_what_comes_and_counts_it) {
  Line line("delay=1us", 2);
  line.put(1);
  line.put(2);
  EXPECT_EQ(line.line.room(), 0u);
  line.put(3);
  EXPECT_EQ(line.line.overflows(), 1u);
  line.now = line.now + microseconds(1);
  EXPECT_EQ(line.release(), "1 2 ");
}

TEST(FaultLine, forget__what_is_held_for_a_destination_goes_with_it) {
  Line line("delay=1us");
  line.put(1);
  line.line.forget(&line);
  EXPECT_EQ(line.line.room(), 8u);
  EXPECT_EQ(line.line.next_deadline(), kNever);
}

}  // namespace
}  // namespace roci
