#include "drivers/fabric/red.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/fabric/fabric_rig.h"

namespace roci::fabric {
namespace {

constexpr int kPackets = 200'000;

/// |measured - expected| <= 3 sigma of a binomial distribution.
void expect_within_3_sigma(std::uint64_t marks, double probability) {
  const double expected = kPackets * probability;
  const double sigma = std::sqrt(kPackets * probability * (1 - probability));
  EXPECT_NEAR(static_cast<double>(marks), expected, 3 * sigma) << "probability " << probability;
}

TEST(Red, marks__share_of_packets_at_a_length_is_the_formula) {
  Red red({.kmin_bytes = 5'000, .kmax_bytes = 200'000, .pmax = 0.01}, 7, 0, 0);
  // 0.01 * (q - 5000) / 195000
  const struct {
    std::uint64_t queue_bytes;
    double probability;
  } kCases[] = {{24'500, 0.001}, {102'500, 0.005}, {180'500, 0.009}, {200'000, 0.01}};
  for (const auto& [queue_bytes, probability] : kCases) {
    std::uint64_t marks = 0;
    for (int i = 0; i < kPackets; ++i) marks += red.marks(3, queue_bytes);
    expect_within_3_sigma(marks, probability);
  }
}

TEST(Red, marks__none_up_to_kmin_and_all_above_kmax) {
  Red red({.kmin_bytes = 5'000, .kmax_bytes = 200'000, .pmax = 0.01}, 7, 0, 0);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(red.marks(3, 0));
    EXPECT_FALSE(red.marks(3, 5'000));
    EXPECT_TRUE(red.marks(3, 200'001));
  }
  EXPECT_EQ(red.probability(5'000), 0);
  EXPECT_DOUBLE_EQ(red.probability(200'000), 0.01);
  EXPECT_EQ(red.probability(200'001), 1);
}

TEST(Red, marks__equal_bounds_are_the_step_of_dctcp) {
  Red red({.kmin_bytes = 30'000, .kmax_bytes = 30'000, .pmax = 1}, 7, 0, 0);
  EXPECT_FALSE(red.marks(3, 30'000));
  EXPECT_TRUE(red.marks(3, 30'001));
}

TEST(Red, marks__only_the_priorities_asked_for) {
  Red red({.kmin_bytes = 0, .kmax_bytes = 0, .pmax = 1, .priorities = 0x08}, 7, 0, 0);
  EXPECT_TRUE(red.marks(3, 1'000));
  EXPECT_FALSE(red.marks(6, 1'000));
}

TEST(Red, streams__ports_and_switches_draw_independently_and_a_seed_repeats) {
  const RedConfig config{.kmin_bytes = 0, .kmax_bytes = 1'000, .pmax = 1};
  const auto draws = [&](std::uint64_t seed, std::uint32_t switch_number, std::uint32_t port) {
    Red red(config, seed, switch_number, port);
    std::uint64_t bits = 0;
    for (int i = 0; i < 64; ++i) bits = bits << 1 | (red.marks(3, 500) ? 1 : 0);
    return bits;
  };
  EXPECT_EQ(draws(1, 0, 0), draws(1, 0, 0));
  EXPECT_NE(draws(1, 0, 0), draws(1, 0, 1));
  EXPECT_NE(draws(1, 0, 0), draws(1, 1, 0));
  EXPECT_NE(draws(1, 0, 0), draws(2, 0, 0));
}

/// Keeps `behind` frames of 1000 bytes behind each frame that leaves, and counts the marks of kPackets.
std::uint64_t marks_at_constant_length(const SwitchConfig& config, std::uint64_t frames) {
  FramePool pool(Rig::kMaxFrame);
  RoutingTable routes;
  routes.set_ports(1, std::vector<std::uint16_t>{1});
  const SwitchPortConfig ports[2] = {{.delay = {}}, {.delay = {}}};
  Switch sw(config, ports, routes, pool, 5, 0);
  Instant now{};
  for (std::uint64_t i = 0; i < frames; ++i) sw.receive(0, make_frame(pool, {.destination = 1}), now);
  sw.reset_statistics(now);
  for (int i = 0; i < kPackets; ++i) {
    now = sw.next_deadline(1, now);
    if (config.mark_at == MarkAt::kEnqueue) sw.receive(0, make_frame(pool, {.destination = 1}), now);
    const Transmission sent = sw.advance(1, now);
    EXPECT_NE(sent.frame, nullptr);
    pool.free(sent.frame);
    if (config.mark_at == MarkAt::kDequeue) sw.receive(0, make_frame(pool, {.destination = 1}), now);
  }
  return sw.counters(1, 3).marks;
}

// Kmin 5000, Kmax 10000, Pmax 0.2: 0 at 5 frames of 1000 bytes, 0.2 * 2/5 = 0.08 at 7, 0.2 at 10, 1 at 11.
TEST(Switch, marks__at_dequeue_by_the_length_behind_the_frame) {
  const SwitchConfig config{.red = {.kmin_bytes = 5'000, .kmax_bytes = 10'000, .pmax = 0.2}};
  EXPECT_EQ(marks_at_constant_length(config, 6), 0u);
  expect_within_3_sigma(marks_at_constant_length(config, 8), 0.08);
  expect_within_3_sigma(marks_at_constant_length(config, 11), 0.2);
  EXPECT_EQ(marks_at_constant_length(config, 12), std::uint64_t{kPackets});
}

TEST(Switch, marks__at_enqueue_by_the_length_before_the_frame) {
  const SwitchConfig config{.red = {.kmin_bytes = 5'000, .kmax_bytes = 10'000, .pmax = 0.2},
                            .mark_at = MarkAt::kEnqueue};
  EXPECT_EQ(marks_at_constant_length(config, 5), 0u);
  expect_within_3_sigma(marks_at_constant_length(config, 7), 0.08);
}

}  // namespace
}  // namespace roci::fabric
