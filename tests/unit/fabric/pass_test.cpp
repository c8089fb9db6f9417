// Switch::pass() is a short cut: whatever passes through a switch, nothing tells the two ways apart.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "stack/base/random.h"
#include "tests/unit/fabric/fabric_rig.h"

namespace roci::fabric {
namespace {

constexpr std::uint32_t kHosts = 5;
constexpr Instant kEnd = Instant{} + microseconds(400);

/// Frames of four priorities, one by one and in bursts that fill the buffer, and pauses from outside.
void load(Rig& rig, std::uint64_t seed) {
  Random random(seed);
  Instant at{};
  for (int i = 0; i < 3'000; ++i) {
    at = at + nanoseconds(static_cast<std::int64_t>(random.below(2) == 0 ? random.below(300) : 0));
    const auto from = static_cast<std::uint32_t>(random.below(kHosts));
    if (random.below(100) == 0)
      rig.inject_pfc(from, 3, static_cast<std::uint16_t>(random.below(200)), at);
    else
      rig.inject(from,
                 {.destination = static_cast<std::uint32_t>(random.below(kHosts)),
                  .frame_bytes = static_cast<std::uint32_t>(60 + random.below(2'000)),
                  .priority = static_cast<std::uint8_t>(random.below(4))},
                 at);
  }
  rig.run_until(kEnd);
}

void expect_equal(const PriorityCounters& a, const PriorityCounters& b) {
  const auto of = [](const PriorityCounters& counters) {
    return std::array<std::uint64_t, 8>{counters.rx_frames, counters.rx_bytes, counters.tx_frames, counters.tx_bytes,
                                        counters.marks,     counters.tx_pause, counters.tx_resume, counters.storms};
  };
  EXPECT_EQ(of(a), of(b));
  EXPECT_EQ(a.drops, b.drops);
}

void expect_equal(const QueueStatistics* a, const QueueStatistics* b) {
  ASSERT_EQ(a == nullptr, b == nullptr);
  if (a == nullptr) return;
  EXPECT_EQ(a->mean_bytes(kEnd), b->mean_bytes(kEnd));
  EXPECT_EQ(a->quantile_bytes(0.9, kEnd), b->quantile_bytes(0.9, kEnd));
  EXPECT_EQ(a->max_bytes(), b->max_bytes());
}

void expect_equal_hosts(const Rig& a, const Rig& b, unsigned host) {
  ASSERT_EQ(a.received(host).size(), b.received(host).size());
  for (std::size_t i = 0; i < a.received(host).size(); ++i) {
    const Received& one = a.received(host)[i];
    const Received& other = b.received(host)[i];
    ASSERT_EQ(one.at, other.at) << "frame " << i;
    ASSERT_EQ(one.source, other.source);
    ASSERT_EQ(one.frame_bytes, other.frame_bytes);
  }
  EXPECT_EQ(a.last_frame(host), b.last_frame(host));
  ASSERT_EQ(a.pfc_received(host).size(), b.pfc_received(host).size());
  for (std::size_t i = 0; i < a.pfc_received(host).size(); ++i)
    EXPECT_EQ(a.pfc_received(host)[i].at, b.pfc_received(host)[i].at);
}

void compare(const SwitchConfig& config, std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rig plain(config, kHosts, seed);
  Rig passing(config, kHosts, seed);
  passing.passes = true;
  load(plain, seed);
  load(passing, seed);
  EXPECT_GT(passing.passed, 100u);
  EXPECT_GT(plain.drops(), 0u);
  EXPECT_EQ(plain.sw.held_bytes(), passing.sw.held_bytes());
  for (unsigned port = 0; port < kHosts; ++port) {
    expect_equal_hosts(plain, passing, port);
    for (unsigned priority = 0; priority < egress::kPriorities; ++priority) {
      expect_equal(plain.sw.counters(port, priority), passing.sw.counters(port, priority));
      expect_equal(plain.sw.queue_statistics(port, priority), passing.sw.queue_statistics(port, priority));
    }
  }
}

TEST(SwitchPass, pass__is_receive_and_advance) {
  SwitchConfig config;
  config.buffer.bytes = 30'000;
  config.red = {.kmin_bytes = 500, .kmax_bytes = 20'000, .pmax = 0.5};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) compare(config, seed);
}

TEST(SwitchPass, pass__of_lossless_priorities_and_classes) {
  SwitchConfig config;
  config.pfc = 1u << 3;
  config.buffer = {.bytes = 60'000, .reserved_bytes = 1'000, .alpha = 0.05};
  config.headroom_bytes = 1'500;
  config.max_frame_bytes = 2'100;
  config.tc_bw = {50, 50, 0, 0, 0, 0, 0, 0};
  config.prio_tc = {0, 1, 1, 3, 0, 0, 0, 0};
  config.mark_at = MarkAt::kEnqueue;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) compare(config, seed);
}

}  // namespace
}  // namespace roci::fabric
