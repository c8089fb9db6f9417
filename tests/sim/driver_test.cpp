// The simulation itself: its clock, its links, its ports and hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "drivers/sim/simulation.h"
#include "stack/base/random.h"

namespace roci::sim {
namespace {

class Log : public EventTarget {
 public:
  void on_event(Instant now, std::uint64_t argument) override {
    text += std::to_string(now.ps) + ":" + std::to_string(argument) + " ";
  }
  std::string text;
};

TEST(EventQueue, step__goes_by_time_and_then_by_order_of_scheduling) {
  EventQueue events;
  Log log;
  events.schedule(Instant{20}, log, 1);
  events.schedule(Instant{10}, log, 2);
  events.schedule(Instant{20}, log, 3);
  events.schedule(Instant{20}, log, 4);
  while (events.step()) {
  }
  EXPECT_EQ(log.text, "10:2 20:1 20:3 20:4 ");
  EXPECT_EQ(events.events_run(), 4u);
}

TEST(EventQueue, schedule__the_past_is_now) {
  EventQueue events;
  Log log;
  events.run_until(Instant{100});
  events.schedule(Instant{7}, log, 1);
  EXPECT_EQ(events.next_at(), Instant{100});
  events.step();
  EXPECT_EQ(log.text, "100:1 ");
}

TEST(EventQueue, run_until__takes_what_is_due_and_stands_at_the_end) {
  EventQueue events;
  Log log;
  for (std::uint64_t at : {5, 10, 11}) events.schedule(Instant{static_cast<std::int64_t>(at)}, log, at);
  events.run_until(Instant{10});
  EXPECT_EQ(log.text, "5:5 10:10 ");
  EXPECT_EQ(events.now(), Instant{10});
  events.run_until(Instant{50});
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(events.now(), Instant{50});
  EXPECT_FALSE(events.step());
}

/// Near and far, within a slot and across rounds, some scheduled by events: against a plain sorted list.
TEST(EventQueue, random_times__come_in_order) {
  const std::uint64_t seed = 20261203;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  EventQueue events;
  std::vector<std::pair<std::int64_t, std::uint64_t>> expected;
  std::vector<std::pair<std::int64_t, std::uint64_t>> seen;
  struct Target : EventTarget {
    std::function<void(Instant, std::uint64_t)> act;
    void on_event(Instant now, std::uint64_t argument) override { act(now, argument); }
  } target;
  std::uint64_t number = 0;
  const auto schedule = [&] {
    constexpr std::array<std::uint64_t, 5> kSpans{1, 10'000, 1'000'000, 100'000'000, 100'000'000'000};
    const auto ahead = static_cast<std::int64_t>(random.below(kSpans[random.below(kSpans.size())]));
    const Instant at = events.now() + picoseconds(ahead);
    expected.emplace_back(at.ps, number);
    events.schedule(at, target, number++);
  };
  target.act = [&](Instant now, std::uint64_t argument) {
    seen.emplace_back(now.ps, argument);
    for (std::uint64_t i = random.below(3); i > 0 && number < 20'000; --i) schedule();
  };
  for (int i = 0; i < 100; ++i) {
    schedule();
    if (i % 10 == 0) events.run_until(events.now() + microseconds(static_cast<std::int64_t>(random.below(50))));
  }
  while (number < 20'000) {
    if (!events.step()) schedule();
    if (random.below(50) == 0) events.run_until(events.next_at() - picoseconds(1));
  }
  while (events.step()) {
  }
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(seen, expected);
}

TEST(EventQueue, call_at__functions_may_schedule_functions) {
  EventQueue events;
  std::vector<std::int64_t> times;
  events.call_at(Instant{1}, [&] {
    times.push_back(events.now().ps);
    for (int i = 0; i < 3; ++i) events.call_at(Instant{10 + i}, [&] { times.push_back(events.now().ps); });
  });
  events.run_until(Instant{100});
  EXPECT_EQ(times, (std::vector<std::int64_t>{1, 10, 11, 12}));
}

/// Two ports on a segment, with no stack behind them.
class Segment : public testing::Test {
 protected:
  struct Listener : ArrivalListener {
    explicit Listener(EventQueue& queue) : events(queue) {}
    void on_frame_ready() override { times.push_back(events.now().ps); }
    EventQueue& events;
    std::vector<std::int64_t> times;
  };

  Segment() {
    a.set_listener(at_a);
    b.set_listener(at_b);
  }

  void make(const LinkConfig& config) { network.set_link(0, 1, config); }
  /// Sends frames of `bytes` each, all at the present time; returns how many found room.
  std::size_t send(std::size_t count, std::uint32_t bytes, Route* route = nullptr) {
    if (route == nullptr) route = to_b;
    a.begin_turn(events.now(), TurnReason::kPoll);
    std::vector<TxSlot> slots(count);
    const std::size_t room = a.tx_reserve(*route, slots);
    for (std::size_t i = 0; i < room; ++i) std::memset(slots[i].data, static_cast<int>(i), bytes);
    a.tx_commit(*route, std::vector<std::uint32_t>(room, bytes));
    return room;
  }

  EventQueue events;
  Network network{events};
  Listener at_a{events};
  Listener at_b{events};
  SimPort a{network, {.host = 0}};
  SimPort b{network, {.host = 1}};
  Route* to_b = a.acquire_route(v4_address(1), Qpn{5});
};

// 1000 bytes and 24 of preamble, FCS and gap are 8192 bits: 81.92 ns at 100 Gb/s.
TEST_F(Segment, frames__arrive_after_their_time_on_the_wire_and_the_delay) {
  make({.rate_bps = 100'000'000'000, .delay = microseconds(1)});
  EXPECT_EQ(send(3, 1000), 3u);
  events.run_until(Instant{10'000'000});
  EXPECT_EQ(at_b.times, (std::vector<std::int64_t>{1'081'920, 1'163'840, 1'245'760}));
  EXPECT_EQ(network.link(0, 1).sent_bytes(), 3000u);
}

TEST_F(Segment, rate_of_zero__takes_no_time) {
  make({.rate_bps = 0, .delay = nanoseconds(7)});
  send(2, 4000);
  events.run_until(Instant{1'000'000});
  EXPECT_EQ(at_b.times, (std::vector<std::int64_t>{7'000, 7'000}));
}

TEST_F(Segment, room__is_what_has_not_all_been_sent) {
  make({.rate_bps = 100'000'000'000, .queue_frames = 2});
  EXPECT_EQ(send(3, 1000), 2u);
  EXPECT_EQ(send(1, 1000), 0u);
  EXPECT_EQ(a.room_at(), Instant{81'920});
  events.run_until(Instant{81'919});
  EXPECT_EQ(send(1, 1000), 0u);
  events.run_until(Instant{81'920});
  EXPECT_EQ(send(2, 1000), 1u);
}

TEST_F(Segment, received_frames__are_lent_until_released) {
  make({});
  send(3, 64);
  events.run_until(Instant{10'000'000});
  std::array<RxFrame, 2> frames;
  ASSERT_EQ(b.rx_burst(frames), 2u);
  EXPECT_EQ(frames[1].size, 64u);
  EXPECT_EQ(frames[1].data[63], std::byte{1});
  b.rx_release();
  ASSERT_EQ(b.rx_burst(frames), 1u);
  EXPECT_EQ(frames[0].data[0], std::byte{2});
  b.rx_release();
  EXPECT_FALSE(b.has_frames());
  EXPECT_EQ(network.frames_in_use(), 0u);
}

TEST_F(Segment, unknown_destination__is_counted_and_dropped) {
  EXPECT_GT(send(3, 64, a.acquire_route(v4_address(9), Qpn{5})), 0u);
  EXPECT_EQ(a.unreachable_frames(), 3u);
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(network.frames_in_use(), 0u);
}

TEST_F(Segment, addresses__lead_to_their_hosts_with_the_right_ethernet_header) {
  for (const IpAddress& address : {v4_address(1), v6_address(1)}) {
    Route* route = a.acquire_route(address, Qpn{5});
    send(1, 64, route);
    const MacAddress target = b.attributes().mac;
    const MacAddress source = a.attributes().mac;
    EXPECT_EQ(std::memcmp(route->l2.data(), target.bytes.data(), 6), 0);
    EXPECT_EQ(std::memcmp(route->l2.data() + 6, source.bytes.data(), 6), 0);
    EXPECT_EQ(route->l2[12], address.is_v4() ? std::byte{0x08} : std::byte{0x86});
    a.release_route(route);
  }
  events.run_until(Instant{10'000'000});
  EXPECT_EQ(at_b.times.size(), 2u);
  EXPECT_TRUE(at_a.times.empty());
}

TEST(SimHost, turns__come_when_asked_for_and_no_closer_than_a_turn_takes) {
  Simulation simulation(1);
  SimHost& host = simulation.add_host({.turn_time = nanoseconds(100)});
  std::vector<std::int64_t> turns;
  host.set_application([&] { turns.push_back(simulation.now().ps); });
  simulation.events().run_until(Instant{1'000'000});
  EXPECT_TRUE(turns.empty());
  host.request_turn();
  host.request_turn();
  simulation.events().run_until(Instant{1'000'000});
  host.request_turn();
  simulation.events().run_until(Instant{5'000'000});
  EXPECT_EQ(turns, (std::vector<std::int64_t>{1'000'000, 1'100'000}));
}

TEST(SimHost, jitter__delays_a_turn_by_at_most_that) {
  Simulation simulation(1);
  SimHost& host = simulation.add_host({.turn_jitter = microseconds(1)});
  Duration most{};
  for (int i = 0; i < 100; ++i) {
    const Instant asked = simulation.now();
    Instant turned = kNever;
    host.set_application([&] { turned = simulation.now(); });
    host.request_turn();
    simulation.events().run_until(asked + microseconds(5));
    ASSERT_LE(turned - asked, microseconds(1));
    most = std::max(most, turned - asked);
  }
  EXPECT_GT(most, nanoseconds(900));
}

TEST(SimHost, stopped__takes_no_turn_until_resumed) {
  Simulation simulation(1);
  SimHost& host = simulation.add_host();
  int turns = 0;
  host.set_application([&] { ++turns; });
  host.stop(true);
  host.request_turn();
  simulation.events().run_until(Instant{1'000'000});
  EXPECT_EQ(turns, 0);
  host.resume();
  simulation.events().run_until(Instant{2'000'000});
  EXPECT_EQ(turns, 1);
}

TEST(SimHost, entropy__comes_from_the_seed_and_differs_by_host) {
  Simulation one(5);
  Simulation same(5);
  Simulation other(6);
  const std::uint64_t first = one.add_host().next();
  EXPECT_EQ(first, same.add_host().next());
  EXPECT_NE(first, other.add_host().next());
  EXPECT_NE(first, one.add_host().next());
}

}  // namespace
}  // namespace roci::sim
