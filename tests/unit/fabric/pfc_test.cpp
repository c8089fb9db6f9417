#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "stack/base/random.h"
#include "tests/support/seed.h"
#include "tests/unit/fabric/fabric_rig.h"

namespace roci::fabric {
namespace {

constexpr Instant at_us(std::int64_t n) { return Instant{} + microseconds(n); }
constexpr std::uint16_t kLongPause = 0xffff;  // 335.5392 us at 100 Gb/s
constexpr std::uint32_t kLongFrame = 4'272;

/// Priority 3 is lossless, without reserve; `shared` bytes are left to share among `ports` ports.
SwitchConfig lossless(std::uint64_t shared, std::uint64_t ports, std::uint64_t headroom) {
  SwitchConfig config;
  config.pfc = 0x08;
  config.headroom_bytes = headroom;
  config.buffer.reserved_bytes = 0;
  config.buffer.bytes = shared + ports * (headroom + config.max_frame_bytes);
  return config;
}

// 10000 bytes to share and alpha 1: s > 10000 - s with the sixth frame of 1000 bytes, at 6 us. The PFC frame takes
// 84 * 80 ps = 6.72 ns and a link of 1 us. It is repeated each 65535 * 5.12 / 2 = 167769.6 ns. Host 1 lets go at 400
// us: frames leave each 81.92 ns, and XON comes when s + 3072 <= 10000 - s, with the third, at 400163.84 ns.
TEST(Pfc, xoff_refresh_and_xon__come_when_they_should) {
  Rig rig(lossless(10'000, 2, 20'000), 2);
  rig.inject_pfc(1, 3, kLongPause, Instant{});
  rig.inject_pfc(1, 3, kLongPause, at_us(300));
  rig.inject_pfc(1, 3, 0, at_us(400));
  for (int i = 1; i <= 6; ++i) rig.inject(0, {.destination = 1}, at_us(i));
  rig.run_until(at_us(1'000));
  const std::vector<ReceivedPfc>& pfc = rig.pfc_received(0);
  ASSERT_EQ(pfc.size(), 4u);
  EXPECT_EQ(pfc[0].at.ps, 7'006'720);
  EXPECT_EQ(pfc[1].at.ps, 7'006'720 + 167'769'600);
  EXPECT_EQ(pfc[2].at.ps, 7'006'720 + 2 * 167'769'600);
  EXPECT_EQ(pfc[3].at.ps, 400'163'840 + 1'006'720);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(pfc[i].pfc().class_enable, 0x08);
    EXPECT_EQ(pfc[i].pfc().time_quanta[3], i < 3 ? kLongPause : 0);
  }
  EXPECT_EQ(rig.sw.counters(0, 3).tx_pause, 3u);
  EXPECT_EQ(rig.sw.counters(0, 3).tx_resume, 1u);
  EXPECT_EQ(rig.sw.counters(1, 3).rx_pause, 2u);
  EXPECT_EQ(rig.sw.paused(1, 3, at_us(1'000)), microseconds(400));
  EXPECT_EQ(rig.received(1).size(), 6u);
  EXPECT_EQ(rig.drops(), 0u);
}

// IEEE 802.3 annex 31D.
TEST(Pfc, frame__has_the_layout_of_the_standard) {
  SwitchPortConfig port;
  port.mac = {{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}};
  SwitchConfig config = lossless(10'000, 2, 20'000);
  config.pause_quanta = 0x1234;
  Rig rig(config, 2, 1, port);
  rig.inject_pfc(1, 3, kLongPause, Instant{});
  for (int i = 1; i <= 6; ++i) rig.inject(0, {.destination = 1}, at_us(i));
  rig.run_until(at_us(8));
  std::array<std::uint8_t, 60> expected{0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x02, 0x11, 0x22,
                                        0x33, 0x44, 0x55, 0x88, 0x08, 0x01, 0x01, 0x00, 0x08};
  expected[18 + 2 * 3] = 0x12;
  expected[18 + 2 * 3 + 1] = 0x34;
  ASSERT_EQ(rig.pfc_received(0).size(), 1u);
  const std::vector<std::byte>& bytes = rig.pfc_received(0)[0].bytes;
  ASSERT_EQ(bytes.size(), expected.size());
  EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), expected.size()), 0);
}

// Two frames of 4000 bytes go the other way from 5.9 us on, each for 4024 * 80 ps = 321.92 ns. The PFC frame of 6 us
// leaves between them, at 6.22192 us.
TEST(Pfc, xoff__waits_for_the_frame_that_is_being_sent_only) {
  Rig rig(lossless(20'000, 2, 40'000), 2);
  rig.inject_pfc(1, 3, kLongPause, Instant{});
  for (int i = 0; i < 2; ++i)
    rig.inject(1, {.source = 1, .destination = 0, .frame_bytes = 4'000, .priority = 0}, Instant{5'900'000});
  // 4000 of a lossy frame that waits count too: s > 20000 - 4000 - s with the ninth frame.
  for (int i = 0; i < 9; ++i) rig.inject(0, {.destination = 1}, Instant{6'000'000 - (8 - i) * 10'000});
  rig.run_until(at_us(20));
  ASSERT_EQ(rig.pfc_received(0).size(), 1u);
  EXPECT_EQ(rig.pfc_received(0)[0].at.ps, 6'221'920 + 1'006'720);
  ASSERT_EQ(rig.received(0).size(), 2u);
  EXPECT_EQ(rig.received(0)[1].at.ps, 6'221'920 + 6'720 + 321'920 + 1'000'000);
}

// 100 quanta of 5.12 ns are 512 ns.
TEST(Pfc, pause__holds_its_priority_for_its_quanta) {
  Rig rig(lossless(100'000, 2, 20'000), 2);
  rig.inject_pfc(1, 3, 100, at_us(1));
  rig.inject(0, {.destination = 1, .priority = 3}, at_us(1));
  rig.inject(0, {.destination = 1, .priority = 0}, at_us(1));
  rig.run_until(at_us(5));
  ASSERT_EQ(rig.received(1).size(), 2u);
  EXPECT_EQ(rig.received(1)[0].priority, 0);
  EXPECT_EQ(rig.received(1)[0].at.ps, 1'000'000 + 81'920 + 1'000'000);
  EXPECT_EQ(rig.received(1)[1].priority, 3);
  EXPECT_EQ(rig.received(1)[1].at.ps, 1'000'000 + 512'000 + 81'920 + 1'000'000);
}

TEST(Pfc, pause__a_later_frame_overwrites_and_a_lossy_priority_does_not_care) {
  Rig rig(lossless(100'000, 2, 20'000), 2);
  rig.inject_pfc(1, 3, 1'000, at_us(1));
  rig.inject(0, {.destination = 1, .priority = 3}, at_us(2));
  rig.inject_pfc(1, 3, 100, at_us(3));
  rig.inject_pfc(1, 0, 1'000, at_us(10));
  rig.inject(0, {.destination = 1, .priority = 0}, at_us(11));
  rig.run_until(at_us(20));
  ASSERT_EQ(rig.received(1).size(), 2u);
  EXPECT_EQ(rig.received(1)[0].at.ps, 3'000'000 + 512'000 + 81'920 + 1'000'000);
  EXPECT_EQ(rig.received(1)[1].at.ps, 11'000'000 + 81'920 + 1'000'000);
}

/// Drops of a lossless priority when as much comes after XOFF as ever can. Frames of 4272 bytes take 4296 * 80 ps =
/// 343.68 ns and the first arrives at 1343.68 ns. With 6 of them to share, the fourth calls for XOFF, at 2374.72 ns; by
/// then, 1 ps ago, our port has begun a frame of that size, so the PFC frame arrives at 2374.719 + 343.68 + 6.72 + 1000
/// = 3725.119 ns. The host begins its 11th frame at 3436.8 ns and no 12th: 7 * 4272 = 29904 bytes come after XOFF.
std::uint64_t drops_in_the_worst_case(std::uint64_t headroom) {
  Rig rig(lossless(6 * kLongFrame, 2, headroom), 2);
  rig.inject_pfc(1, 3, kLongPause, Instant{});
  rig.send({.source = 0, .destination = 1, .frame_bytes = kLongFrame}, 1'000);
  rig.inject(1, {.source = 1, .destination = 0, .frame_bytes = kLongFrame, .priority = 0}, Instant{2'374'719});
  rig.run_until(at_us(50));
  EXPECT_EQ(rig.pfc_received(0).at(0).at.ps, 3'725'119);
  EXPECT_EQ(rig.sw.counters(0, 3).rx_frames, 11u);
  EXPECT_EQ(rig.drops(), rig.drops(DropReason::kNoHeadroom));
  return rig.drops();
}

// The formula gives 2 * 12500 + 2 * 4296 + 84 = 33676.
TEST(Pfc, headroom__by_the_formula_loses_nothing_and_one_frame_less_loses) {
  EXPECT_EQ(drops_in_the_worst_case(33'676), 0u);
  EXPECT_EQ(drops_in_the_worst_case(33'676 - kLongFrame), 1u);
}

// 400 ns at 100 Gb/s are 5000 bytes more.
TEST(Pfc, headroom__is_of_each_port_by_its_link_and_peer) {
  SwitchConfig config;
  config.pfc = 0x08;
  const std::vector<SwitchPortConfig> ports{{}, {.pfc_response = nanoseconds(400)}};
  const Rig rig(config, ports, 1);
  EXPECT_EQ(rig.sw.headroom_bytes(0), 33'676u);
  EXPECT_EQ(rig.sw.headroom_bytes(1), 38'676u);
}

/// Random rates, delays, sizes, bursts, and hosts that pause the switch at random.
void run_random_load(std::uint64_t seed) {
  Random random(seed);
  constexpr std::uint64_t kRates[] = {10'000'000'000, 25'000'000'000, 100'000'000'000, 400'000'000'000};
  std::vector<SwitchPortConfig> ports(random.between(2, 6));
  for (SwitchPortConfig& port : ports)
    port = {.rate_bps = kRates[random.below(4)], .delay = nanoseconds(static_cast<std::int64_t>(random.below(3'000)))};
  SwitchConfig config;
  config.pfc = 0x18;
  config.buffer.alpha = static_cast<double>(1 << random.below(7)) / 8;
  config.buffer.reserved_bytes = static_cast<std::uint32_t>(random.below(6'000));
  config.buffer.bytes = 1;
  while (Switch::check(config, ports) != nullptr) config.buffer.bytes += 10'000;
  config.buffer.bytes += random.below(100'000);
  Rig rig(config, ports, seed);
  std::uint64_t sent = 0;
  for (int i = 0; i < 40; ++i) {
    const auto source = static_cast<std::uint32_t>(random.below(ports.size()));
    const auto destination = static_cast<std::uint32_t>((source + random.between(1, ports.size() - 1)) % ports.size());
    const std::uint64_t frames = random.between(1, 60);
    rig.send({.source = source,
              .destination = destination,
              .frame_bytes = static_cast<std::uint32_t>(random.between(64, kLongFrame)),
              .priority = static_cast<std::uint8_t>(random.between(3, 4))},
             frames, Instant{static_cast<std::int64_t>(random.below(50'000'000))});
    sent += frames;
    rig.inject_pfc(destination, static_cast<unsigned>(random.between(3, 4)),
                   static_cast<std::uint16_t>(random.below(2'000)),
                   Instant{static_cast<std::int64_t>(random.below(80'000'000))});
  }
  rig.run_until(at_us(100'000));
  EXPECT_EQ(rig.drops(), 0u);
  std::uint64_t received = 0;
  for (unsigned host = 0; host < ports.size(); ++host) received += rig.received(host).size();
  EXPECT_EQ(received, sent);
  EXPECT_EQ(rig.sw.held_bytes(), 0u);
  EXPECT_EQ(rig.pool.in_use(), 0u);
}

TEST(Pfc, lossless_priorities__lose_nothing_under_any_load) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::seed_note(seed));
  for (std::uint64_t i = 0; i < 50 && !testing::Test::HasFailure(); ++i) run_random_load(seed + i);
}

class Incast : public testing::TestWithParam<std::uint32_t> {};

// Each sender's group settles at T = alpha * B / (1 + alpha * N) and may go on by its headroom.
TEST_P(Incast, pfc_only__exact_shares_no_drop_and_a_bounded_queue) {
  const std::uint32_t senders = GetParam();
  SwitchConfig config;
  config.pfc = 0x08;
  config.buffer.bytes = 4'000'000;
  Rig rig(config, senders + 1);
  for (std::uint32_t host = 1; host <= senders; ++host)
    rig.send({.source = host, .destination = 0, .frame_bytes = 1'086}, UINT64_MAX);
  rig.run_until(at_us(2'000));
  std::map<std::uint32_t, std::uint64_t> frames;
  for (const Received& frame : rig.received(0))
    if (frame.at > at_us(1'000)) ++frames[frame.source];
  ASSERT_EQ(frames.size(), senders);
  const auto [least, most] = std::ranges::minmax_element(frames, {}, [](const auto& entry) { return entry.second; });
  EXPECT_LE(most->second - least->second, 1u);
  // The link is never idle: 1 ms / (1110 * 80 ps).
  std::uint64_t sum = 0;
  for (const auto& [source, count] : frames) sum += count;
  EXPECT_NEAR(static_cast<double>(sum), 1e9 / (1'110 * 80), 1);
  EXPECT_EQ(rig.drops(), 0u);
  const auto shared = static_cast<double>(rig.sw.buffer().shared_capacity());
  const double threshold = shared / (1 + senders) + config.max_frame_bytes + config.buffer.reserved_bytes;
  const double headroom = static_cast<double>(rig.sw.headroom_bytes(1));
  const double longest = static_cast<double>(rig.sw.queue_statistics(0, 3)->max_bytes());
  EXPECT_LE(longest, senders * (threshold + headroom));
  EXPECT_GE(longest, senders * shared / (1 + senders));
  EXPECT_GT(rig.sw.counters(1, 3).tx_resume, 0u);
}

INSTANTIATE_TEST_SUITE_P(Senders, Incast, testing::Values(2, 4, 8, 16));

SwitchConfig watched(WatchdogConfig::Action action) {
  SwitchConfig config = lossless(100'000, 2, 20'000);
  config.watchdog = {.action = action, .detection = microseconds(100), .restoration = microseconds(60)};
  return config;
}

/// Host 1 pauses from 10 us on and says so again at 150 us; frames come at 20, 130, 190 and 250 us. The queue is seen
/// to stand still from 20 us on: a storm from 120 us to 150 + 60 us.
void run_storm(Rig& rig) {
  rig.inject_pfc(1, 3, kLongPause, at_us(10));
  rig.inject_pfc(1, 3, kLongPause, at_us(150));
  for (const int at : {20, 130, 190, 250}) rig.inject(0, {.destination = 1}, at_us(at));
  rig.run_until(at_us(260));
}

constexpr std::int64_t kHop = 81'920 + 1'000'000;

TEST(Watchdog, drop__empties_the_queue_until_the_storm_is_over) {
  Rig rig(watched(WatchdogConfig::Action::kDrop), 2);
  run_storm(rig);
  EXPECT_EQ(rig.drops(DropReason::kWatchdog), 3u);
  EXPECT_EQ(rig.sw.counters(1, 3).storms, 1u);
  ASSERT_EQ(rig.received(1).size(), 1u);
  EXPECT_EQ(rig.received(1)[0].at.ps, 250'000'000 + kHop);
  EXPECT_EQ(rig.sw.held_bytes(), 0u);
  // PFC counts again.
  rig.inject_pfc(1, 3, kLongPause, at_us(300));
  rig.inject(0, {.destination = 1}, at_us(310));
  rig.run_until(at_us(350));
  EXPECT_EQ(rig.received(1).size(), 1u);
}

TEST(Watchdog, ignore__sends_in_spite_of_the_pause) {
  Rig rig(watched(WatchdogConfig::Action::kIgnore), 2);
  run_storm(rig);
  EXPECT_EQ(rig.drops(), 0u);
  ASSERT_EQ(rig.received(1).size(), 4u);
  EXPECT_EQ(rig.received(1)[0].at.ps, 120'000'000 + kHop);
  EXPECT_EQ(rig.received(1)[1].at.ps, 130'000'000 + kHop);
  EXPECT_EQ(rig.received(1)[2].at.ps, 190'000'000 + kHop);
}

TEST(Watchdog, off__waits_for_the_end_of_the_pause) {
  Rig rig(watched(WatchdogConfig::Action::kOff), 2);
  run_storm(rig);
  EXPECT_TRUE(rig.received(1).empty());
  EXPECT_EQ(rig.sw.held_bytes(), 4'000u);
}

// Pauses of 80 us, with something sent after each: no storm.
TEST(Watchdog, pauses__that_end_are_no_storm) {
  Rig rig(watched(WatchdogConfig::Action::kDrop), 2);
  for (int i = 0; i < 10; ++i) {
    rig.inject_pfc(1, 3, 15'625, at_us(100 * i));
    for (int j = 0; j < 3; ++j) rig.inject(0, {.destination = 1}, at_us(100 * i + 10));
  }
  rig.run_until(at_us(2'000));
  EXPECT_EQ(rig.sw.counters(1, 3).storms, 0u);
  EXPECT_EQ(rig.received(1).size(), 30u);
}

// At 1 Gb/s a frame of another priority is being sent from 95 to 127 us, so the gap in the pause at 100 us is of no
// use; the 100 us of the watchdog begin again with the pause at 101 us.
TEST(Watchdog, pause__that_begins_anew_is_measured_anew) {
  Rig rig(watched(WatchdogConfig::Action::kDrop), 2, 1, {.rate_bps = 1'000'000'000});
  rig.inject_pfc(1, 3, kLongPause, at_us(1));
  rig.inject(0, {.destination = 1}, at_us(10));
  rig.inject(0, {.destination = 1, .frame_bytes = 4'000, .priority = 0}, at_us(95));
  rig.inject_pfc(1, 3, 0, at_us(100));
  rig.inject_pfc(1, 3, kLongPause, at_us(101));
  rig.run_until(at_us(200));
  EXPECT_EQ(rig.sw.counters(1, 3).storms, 0u);
  rig.run_until(at_us(202));
  EXPECT_EQ(rig.sw.counters(1, 3).storms, 1u);
}

// The flushed queue held the memory that had stopped host 0.
TEST(Watchdog, drop__lets_the_senders_go_on) {
  SwitchConfig config = watched(WatchdogConfig::Action::kDrop);
  config.buffer.bytes -= 90'000;  // 10000 to share
  Rig rig(config, 2);
  rig.inject_pfc(1, 3, kLongPause, at_us(1));
  for (int i = 0; i < 6; ++i) rig.inject(0, {.destination = 1}, at_us(10));
  rig.run_until(at_us(200));
  EXPECT_EQ(rig.sw.counters(1, 3).storms, 1u);
  ASSERT_EQ(rig.pfc_received(0).size(), 2u);
  EXPECT_EQ(rig.pfc_received(0)[1].pfc().time_quanta[3], 0);
}

}  // namespace
}  // namespace roci::fabric
