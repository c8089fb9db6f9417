#include "drivers/fabric/buffer.h"

#include <gtest/gtest.h>

#include <vector>

#include "drivers/fabric/headroom.h"

namespace roci::fabric {
namespace {

constexpr std::uint8_t kLossless3 = 0x08;
constexpr std::uint32_t kFrame = 1'000;

/// Exactly `shared` bytes to share among `ports` ports with one lossless priority.
SharedBuffer make_buffer(std::uint64_t shared, std::size_t ports, BufferConfig config,
                         std::uint64_t headroom = 20'000) {
  config.bytes = shared + ports * (config.reserved_bytes + headroom + kFrame);
  return {config, kLossless3, std::vector<std::uint64_t>(ports, headroom), kFrame};
}

TEST(SharedBuffer, shared_capacity__total_less_reserve_headroom_and_the_frame_that_triggers) {
  const std::vector<std::uint64_t> headroom{20'000, 30'000};
  // 100000 - (20000 + 4096 + 1000) - (30000 + 4096 + 1000)
  EXPECT_EQ(SharedBuffer::shared_capacity({.bytes = 100'000}, kLossless3, headroom, 1'000), 39'808);
  EXPECT_EQ(SharedBuffer::shared_capacity({.bytes = 100'000}, 0, headroom, 1'000), 100'000);
}

TEST(SharedBuffer, admit__equally_congested_groups_settle_at_alpha_B_over_1_plus_alpha_N) {
  for (const double alpha : {0.125, 1.0, 4.0})
    for (const unsigned groups : {1u, 2u, 4u, 16u}) {
      constexpr double kShared = 3'000'000;
      SharedBuffer buffer = make_buffer(3'000'000, groups, {.reserved_bytes = 0, .alpha = alpha});
      unsigned stopped = 0;
      for (int round = 0; stopped < groups && round < 10'000; ++round)
        for (unsigned port = 0; port < groups; ++port)
          if (!buffer.group(port, 3).xoff && buffer.admit(port, 3, kFrame, 0) == Admission::kTakenXoff) ++stopped;
      ASSERT_EQ(stopped, groups);
      const double expected = alpha * kShared / (1 + alpha * groups);
      for (unsigned port = 0; port < groups; ++port)
        EXPECT_NEAR(static_cast<double>(buffer.group(port, 3).shared), expected, kFrame * (1 + alpha))
            << "alpha " << alpha << ", " << groups << " groups";
    }
}

// Reserve 1500, 10000 to share, alpha 1. Frames of 1000: the first goes to the reserve, of the second one half. After n
// frames shared is n*1000 - 1500 and T is 10000 - shared: 5500 > 4500 with the seventh.
TEST(SharedBuffer, admit__fills_the_reserve_then_shared_up_to_the_threshold_then_headroom) {
  SharedBuffer buffer = make_buffer(10'000, 1, {.reserved_bytes = 1'500, .alpha = 1}, 2'500);
  for (int i = 1; i <= 6; ++i) EXPECT_EQ(buffer.admit(0, 3, kFrame, 0), Admission::kTaken) << i;
  EXPECT_EQ(buffer.group(0, 3).reserved, 1'500u);
  EXPECT_EQ(buffer.group(0, 3).shared, 4'500);
  EXPECT_EQ(buffer.admit(0, 3, kFrame, 0), Admission::kTakenXoff);
  EXPECT_EQ(buffer.group(0, 3).shared, 5'500);
  EXPECT_EQ(buffer.threshold(), 4'500);
  EXPECT_EQ(buffer.admit(0, 3, kFrame, 0), Admission::kTaken);
  EXPECT_EQ(buffer.admit(0, 3, kFrame, 0), Admission::kTaken);
  EXPECT_EQ(buffer.group(0, 3).headroom, 2'000u);
  EXPECT_EQ(buffer.admit(0, 3, kFrame, 0), Admission::kNoHeadroom);
  EXPECT_EQ(buffer.used_bytes(), 9'000u);
}

// From there, XON when the headroom is empty and shared + 1000 <= T = 10000 - shared, that is shared <= 4500: two
// frames empty the headroom, the third brings shared to 4500.
TEST(SharedBuffer, release__empties_headroom_first_and_says_xon_below_the_threshold) {
  SharedBuffer buffer = make_buffer(10'000, 1, {.reserved_bytes = 1'500, .alpha = 1, .xon_offset_bytes = 1'000}, 2'500);
  for (int i = 0; i < 9; ++i) buffer.admit(0, 3, kFrame, 0);
  EXPECT_FALSE(buffer.release(0, 3, kFrame));
  EXPECT_FALSE(buffer.release(0, 3, kFrame));
  EXPECT_EQ(buffer.group(0, 3).headroom, 0u);
  EXPECT_EQ(buffer.group(0, 3).shared, 5'500);
  EXPECT_TRUE(buffer.release(0, 3, kFrame));
  EXPECT_FALSE(buffer.group(0, 3).xoff);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(buffer.release(0, 3, kFrame));
  EXPECT_EQ(buffer.used_bytes(), 0u);
  EXPECT_EQ(buffer.group(0, 3).reserved, 0u);
}

// Groups of 4000 bytes each: T was 2000 when the second one was stopped, and is 6000 when the first one has gone.
TEST(SharedBuffer, admit__a_stopped_group_uses_the_shared_part_again_when_the_threshold_allows) {
  SharedBuffer buffer = make_buffer(10'000, 2, {.reserved_bytes = 0, .alpha = 1}, 2'000);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(buffer.admit(1, 3, kFrame, 0), Admission::kTaken);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(buffer.admit(0, 3, kFrame, 0), Admission::kTaken);
  EXPECT_EQ(buffer.admit(0, 3, kFrame, 0), Admission::kTakenXoff);
  for (int i = 0; i < 4; ++i) buffer.release(1, 3, kFrame);
  EXPECT_EQ(buffer.admit(0, 3, kFrame, 0), Admission::kTaken);
  EXPECT_EQ(buffer.group(0, 3).shared, 5'000);
  EXPECT_EQ(buffer.group(0, 3).headroom, 0u);
}

// A lone group can always go on when it has nothing shared left, even if the threshold is below the offset.
TEST(SharedBuffer, release__an_empty_group_goes_on_whatever_the_offset) {
  SharedBuffer buffer = make_buffer(4'000, 1, {.reserved_bytes = 0, .alpha = 0.01, .xon_offset_bytes = 3'072});
  EXPECT_EQ(buffer.admit(0, 3, kFrame, 0), Admission::kTakenXoff);
  EXPECT_TRUE(buffer.release(0, 3, kFrame));
}

TEST(SharedBuffer, admit__a_lossy_queue_is_cut_at_its_threshold_and_at_the_end_of_the_memory) {
  // T = 0.5 * (10000 - used): with 3 frames queued it is 3500, and a fourth is too much.
  SharedBuffer buffer = make_buffer(10'000, 2, {.lossy_alpha = 0.5});
  for (std::uint64_t queue = 0; queue < 4; ++queue)
    EXPECT_EQ(buffer.admit(0, 0, kFrame, queue * kFrame), queue < 3 ? Admission::kTaken : Admission::kQueueTooLong)
        << queue;
  SharedBuffer greedy = make_buffer(2'500, 2, {.lossy_alpha = 8});
  EXPECT_EQ(greedy.admit(0, 0, kFrame, 0), Admission::kTaken);
  EXPECT_EQ(greedy.admit(0, 0, kFrame, kFrame), Admission::kTaken);
  EXPECT_EQ(greedy.admit(0, 0, kFrame, 2 * kFrame), Admission::kBufferFull);
}

// However many groups are just below the threshold, each one's last frame fits: the memory never overflows.
TEST(SharedBuffer, admit__the_frame_that_triggers_fits_for_all_groups_at_once) {
  constexpr unsigned kGroups = 100;
  SharedBuffer buffer = make_buffer(5'000, kGroups, {.reserved_bytes = 0, .alpha = 64}, 0);
  for (unsigned port = 0; port < kGroups; ++port)
    EXPECT_LE(buffer.admit(port, 3, kFrame, 0), Admission::kTakenXoff) << port;
  EXPECT_EQ(buffer.used_bytes(), kGroups * kFrame);
}

// 100 Gb/s is 12.5 bytes/ns: 2 * 12500 for 1 us both ways, 2 * 4296 for frames, 84 for the PFC frame; a response of 394
// quanta of 512 bits is 394 * 64 = 25216 more.
TEST(Headroom, headroom_bytes__by_the_formula) {
  HeadroomInputs in{.rate_bps = 100'000'000'000, .propagation = microseconds(1), .max_wire_bytes = 4'296};
  EXPECT_EQ(headroom_bytes(in), 33'676u);
  in.response = max_response(in.rate_bps);
  EXPECT_EQ(headroom_bytes(in), 58'892u);
  in.phy_latency = nanoseconds(10);
  EXPECT_EQ(headroom_bytes(in), 59'017u);
}

TEST(Headroom, max_response__quanta_of_the_speed) {
  EXPECT_EQ(max_response(10'000'000'000).ps, 60 * 51'200);
  EXPECT_EQ(max_response(100'000'000'000).ps, 394 * 5'120);
  EXPECT_EQ(max_response(400'000'000'000).ps, 905 * 1'280);
}

}  // namespace
}  // namespace roci::fabric
