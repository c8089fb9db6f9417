#include "stack/egress/pause.h"

#include <gtest/gtest.h>

#include "stack/egress/pfc_sender.h"

namespace roci::egress {
namespace {

constexpr std::uint64_t kGbps = 1'000'000'000;

TEST(PauseQuantum, is_512_bit_times) {
  EXPECT_EQ(pause_quantum(100 * kGbps).ps, 5120);
  EXPECT_EQ(pause_quantum(400 * kGbps).ps, 1280);
  EXPECT_EQ((pause_quantum(100 * kGbps) * 0xffff).ps, 335'539'200) << "335.5 us";
}

TEST(PauseState, a_pause_ends_by_itself) {
  PauseState pauses;
  pauses.pause(3, nanoseconds(100), Instant{});
  EXPECT_EQ(pauses.mask(Instant{} + nanoseconds(99)), 1 << 3);
  EXPECT_EQ(pauses.mask(Instant{} + nanoseconds(100)), 0);
  EXPECT_EQ(pauses.total(3, Instant{} + nanoseconds(500)), nanoseconds(100));
}

TEST(PauseState, a_later_frame_overwrites_what_was_left) {
  PauseState pauses;
  pauses.pause(3, nanoseconds(1000), Instant{});
  pauses.pause(3, nanoseconds(50), Instant{} + nanoseconds(100));
  EXPECT_EQ(pauses.mask(Instant{} + nanoseconds(149)), 1 << 3);
  EXPECT_EQ(pauses.mask(Instant{} + nanoseconds(150)), 0);
  EXPECT_EQ(pauses.total(3, Instant{} + nanoseconds(150)), nanoseconds(150));
}

TEST(PauseState, a_time_of_0_ends_the_pause) {
  PauseState pauses;
  pauses.pause(3, nanoseconds(1000), Instant{});
  pauses.pause(3, {}, Instant{} + nanoseconds(200));
  EXPECT_EQ(pauses.mask(Instant{} + nanoseconds(200)), 0);
  EXPECT_EQ(pauses.total(3, Instant{} + nanoseconds(999)), nanoseconds(200));
}

TEST(PauseState, priorities_are_apart) {
  PauseState pauses;
  pauses.pause(0, nanoseconds(100), Instant{});
  pauses.pause(5, nanoseconds(300), Instant{});
  EXPECT_EQ(pauses.mask(Instant{}), 0b10'0001);
  EXPECT_EQ(pauses.earliest_end(0xff), Instant{} + nanoseconds(100));
  EXPECT_EQ(pauses.earliest_end(1 << 5), Instant{} + nanoseconds(300));
  EXPECT_EQ(pauses.earliest_end(1 << 1), kNever);
  EXPECT_EQ(pauses.mask(Instant{} + nanoseconds(200)), 0b10'0000);
  EXPECT_EQ(pauses.total(0, Instant{} + nanoseconds(200)), nanoseconds(100));
  EXPECT_EQ(pauses.total(5, Instant{} + nanoseconds(200)), nanoseconds(200)) << "still paused";
}

class Sender : public testing::Test {
 protected:
  Sender() { sender.configure(1 << 3 | 1 << 4, 100 * kGbps); }
  std::optional<PfcFrame> at(Duration time, bool behind) { return sender.update(behind, Instant{} + time); }

  PfcSender sender;
};

TEST_F(Sender, pauses_the_lossless_priorities_once_and_ends_the_pause_once) {
  EXPECT_FALSE(at({}, false).has_value());
  const auto off = at(microseconds(1), true);
  ASSERT_TRUE(off.has_value());
  EXPECT_EQ(off->class_enable, 0b1'1000);
  EXPECT_EQ(off->time_quanta, (std::array<std::uint16_t, 8>{0, 0, 0, 0xffff, 0xffff, 0, 0, 0}));
  EXPECT_FALSE(at(microseconds(2), true).has_value());
  const auto on = at(microseconds(3), false);
  ASSERT_TRUE(on.has_value());
  EXPECT_EQ(on->class_enable, 0b1'1000);
  EXPECT_EQ(on->time_quanta, (std::array<std::uint16_t, 8>{}));
  EXPECT_FALSE(at(microseconds(4), false).has_value());
}

TEST_F(Sender, refreshes_at_half_of_the_longest_pause) {
  // 0xffff quanta of 5.12 ns are 335.5392 us; half of that is 167.7696 us.
  EXPECT_TRUE(at({}, true).has_value());
  EXPECT_FALSE(at(nanoseconds(167'769), true).has_value());
  const auto again = at(nanoseconds(167'770), true);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->time_quanta[3], 0xffff);
}

TEST_F(Sender, gives_up_after_100_ms_until_it_has_caught_up) {
  EXPECT_TRUE(at({}, true).has_value());
  EXPECT_TRUE(at(milliseconds(99), true).has_value());
  const auto released = at(milliseconds(100), true);
  ASSERT_TRUE(released.has_value());
  EXPECT_EQ(released->time_quanta[3], 0) << "XON";
  EXPECT_TRUE(sender.guarded());
  EXPECT_FALSE(at(milliseconds(500), true).has_value());
  EXPECT_FALSE(at(milliseconds(501), false).has_value());
  EXPECT_FALSE(sender.guarded());
  EXPECT_TRUE(at(milliseconds(502), true).has_value());
}

}  // namespace
}  // namespace roci::egress
