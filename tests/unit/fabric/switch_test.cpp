#include "drivers/fabric/switch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "stack/wire/icrc.h"
#include "tests/unit/fabric/fabric_rig.h"

namespace roci::fabric {
namespace {

constexpr Instant at_us(std::int64_t n) { return Instant{} + microseconds(n); }

// 1000 bytes and 24 of preamble, FCS and gap at 100 Gb/s: 1024 * 80 ps = 81.92 ns, and 1 us of link.
TEST(Switch, receive__forwards_a_whole_frame_after_its_time_on_the_wire) {
  Rig rig({}, 2);
  rig.inject(0, {.destination = 1}, at_us(5));
  rig.inject(0, {.destination = 1}, at_us(5));
  rig.run_until(at_us(10));
  ASSERT_EQ(rig.received(1).size(), 2u);
  EXPECT_EQ(rig.received(1)[0].at.ps, 5'000'000 + 81'920 + 1'000'000);
  EXPECT_EQ(rig.received(1)[1].at.ps, 5'000'000 + 2 * 81'920 + 1'000'000);
  EXPECT_EQ(rig.sw.counters(0, 3).rx_frames, 2u);
  EXPECT_EQ(rig.sw.counters(1, 3).tx_bytes, 2'000u);
  EXPECT_EQ(rig.pool.in_use(), 0u);
}

// 1024 * 8 bits at 3 Gb/s are 2730.666 ns; a frame of 42 bytes is padded to 60: 84 * 8 / 3 = 224 ns.
TEST(Switch, advance__any_rate_and_short_frames) {
  Rig rig({}, 2, 1, {.rate_bps = 3'000'000'000, .delay = {}});
  rig.inject(0, {.destination = 1}, Instant{});
  rig.inject(0, {.destination = 1, .frame_bytes = 42}, at_us(10));
  rig.run_until(at_us(20));
  ASSERT_EQ(rig.received(1).size(), 2u);
  EXPECT_EQ(rig.received(1)[0].at.ps, 2'730'666);
  EXPECT_EQ(rig.received(1)[1].at.ps, 10'224'000);
}

TEST(Switch, receive__drops_with_a_reason) {
  SwitchConfig config;
  config.max_frame_bytes = 2'000;
  Rig rig(config, 2);
  rig.inject(0, {.destination = 7}, Instant{});
  rig.inject(0, {.destination = Frame::kNowhere}, Instant{});
  rig.inject(0, {.destination = 0}, Instant{});
  rig.inject(0, {.destination = 1, .frame_bytes = 2'001}, Instant{});
  rig.run_until(at_us(5));
  EXPECT_EQ(rig.drops(DropReason::kNoRoute), 3u);
  EXPECT_EQ(rig.drops(DropReason::kTooLong), 1u);
  EXPECT_EQ(rig.drops(), 4u);
  EXPECT_EQ(rig.pool.in_use(), 0u);
}

// 20000 bytes to share, alpha 1. A frame of 1000 is on the wire, the queue takes q + 1000 <= 20000 - q: up to q = 9000.
TEST(Switch, receive__a_lossy_queue_is_cut_at_its_threshold) {
  SwitchConfig config;
  config.buffer.bytes = 20'000;
  Rig rig(config, 2);
  for (int i = 0; i < 20; ++i) rig.inject(0, {.destination = 1}, Instant{});
  rig.run_until(at_us(5));
  EXPECT_EQ(rig.received(1).size(), 11u);
  EXPECT_EQ(rig.drops(DropReason::kQueueTooLong), 9u);
  EXPECT_EQ(rig.sw.queue_statistics(1, 3)->max_bytes(), 10'000u);
}

SwitchConfig marks_everything() {
  SwitchConfig config;
  config.red = {.kmin_bytes = 0, .kmax_bytes = 0, .pmax = 1};
  return config;
}

/// The traffic class of a frame that leaves with another one behind it; `marks` were set.
std::uint8_t traffic_class_behind_a_queue(const FrameSpec& spec, std::uint64_t* marks) {
  Rig rig(marks_everything(), 2);
  rig.inject(0, {.destination = 1, .frame_bytes = 4'000}, Instant{});
  rig.inject(0, spec, Instant{});
  rig.inject(0, {.destination = 1}, Instant{});
  rig.run_until(Instant{4'024 * 80 + 1'024 * 80 + 1'000'000});
  EXPECT_EQ(rig.received(1).size(), 2u);
  *marks = rig.sw.counters(1, 3).marks;
  const std::vector<std::byte>& got = rig.last_frame(1);
  const std::byte* l3 = got.data() + EthernetHeader::kSize;
  if (spec.is_v4) {
    EXPECT_EQ(ipv4_header_sum(l3), 0xffff);
  }
  const Frame* sent = make_frame(rig.pool, spec);
  const std::uint32_t l3_bytes = sent->stored_bytes - EthernetHeader::kSize;
  EXPECT_EQ(compute_icrc(l3, spec.is_v4, l3_bytes),
            compute_icrc(sent->bytes + EthernetHeader::kSize, spec.is_v4, l3_bytes));
  return traffic_class_at(l3, spec.is_v4);
}

constexpr std::uint8_t kDscp24 = 3 << 5;

TEST(Switch, marks__ect_becomes_ce_and_checksum_and_icrc_stay_right) {
  std::uint64_t marks = 0;
  for (const bool is_v4 : {true, false})
    for (const Ecn ecn : {Ecn::kEct0, Ecn::kEct1}) {
      EXPECT_EQ(traffic_class_behind_a_queue({.destination = 1, .ecn = ecn, .is_v4 = is_v4}, &marks), kDscp24 | 3);
      EXPECT_EQ(marks, 1u);
    }
}

TEST(Switch, marks__what_is_not_capable_or_marked_already_is_left_alone) {
  std::uint64_t marks = 0;
  EXPECT_EQ(traffic_class_behind_a_queue({.destination = 1, .ecn = Ecn::kNotEct}, &marks), kDscp24);
  EXPECT_EQ(marks, 0u);
  EXPECT_EQ(traffic_class_behind_a_queue({.destination = 1, .ecn = Ecn::kCe}, &marks), kDscp24 | 3);
  EXPECT_EQ(marks, 0u);
}

/// Bytes that host 2 got by priority while hosts 0 and 1 each send one priority at line rate.
std::map<std::uint8_t, double> shares(const SwitchConfig& config, const FrameSpec& a, const FrameSpec& b) {
  Rig rig(config, 3);
  rig.send(a, UINT64_MAX);
  rig.send(b, UINT64_MAX);
  rig.run_until(at_us(500));
  std::map<std::uint8_t, double> bytes;
  double sum = 0;
  for (const Received& frame : rig.received(2)) {
    if (frame.at < at_us(100)) continue;
    bytes[frame.priority] += frame.frame_bytes + egress::kWireOverheadBytes;
    sum += frame.frame_bytes + egress::kWireOverheadBytes;
  }
  for (auto& [priority, share] : bytes) share /= sum;
  return bytes;
}

TEST(Switch, ets__classes_share_by_percentage_of_bytes_whatever_their_frames) {
  SwitchConfig config;
  config.buffer.bytes = 400'000;
  config.tc_bw = {30, 0, 0, 70, 0, 0, 0, 0};
  const auto got = shares(config, {.source = 0, .destination = 2, .frame_bytes = 300, .priority = 0},
                          {.source = 1, .destination = 2, .frame_bytes = 1'500, .priority = 3});
  EXPECT_NEAR(got.at(0), 0.30, 0.01);
  EXPECT_NEAR(got.at(3), 0.70, 0.01);
}

TEST(Switch, ets__priorities_of_one_class_share_it_and_an_idle_class_leaves_its_share) {
  SwitchConfig config;
  config.buffer.bytes = 400'000;
  config.tc_bw = {50, 50, 0, 0, 0, 0, 0, 0};
  config.prio_tc = {0, 0, 0, 1, 1, 0, 0, 0};
  const auto got =
      shares(config, {.source = 0, .destination = 2, .priority = 3}, {.source = 1, .destination = 2, .priority = 4});
  EXPECT_NEAR(got.at(3), 0.5, 0.01);
  EXPECT_NEAR(got.at(4), 0.5, 0.01);
}

TEST(Switch, ets__a_strict_class_waits_for_one_frame_at_most) {
  SwitchConfig config;
  config.buffer.bytes = 400'000;
  config.tc_bw = {50, 0, 0, 50, 0, 0, 0, 0};
  Rig rig(config, 3);
  rig.send({.source = 0, .destination = 2, .frame_bytes = 1'500, .priority = 3}, UINT64_MAX);
  rig.send({.source = 1, .destination = 2, .frame_bytes = 1'500, .priority = 0}, UINT64_MAX);
  for (int i = 0; i < 20; ++i)
    rig.inject(0, {.source = 0, .destination = 2, .frame_bytes = 74, .priority = 6}, at_us(20 + 3 * i));
  rig.run_until(at_us(100));
  int seen = 0;
  for (const Received& frame : rig.received(2)) {
    if (frame.priority != 6) continue;
    // 1524 and 98 bytes at 80 ps, and the link.
    EXPECT_LE((frame.at - at_us(20 + 3 * seen)).ps, 1'524 * 80 + 98 * 80 + 1'000'000);
    ++seen;
  }
  EXPECT_EQ(seen, 20);
}

/// The ports that a switch with four equal ways chooses for flows that differ in their UDP port.
std::vector<unsigned> choices(std::uint32_t switch_number) {
  FramePool pool(Rig::kMaxFrame);
  RoutingTable routes;
  routes.set_ports(9, std::vector<std::uint16_t>{1, 2, 3, 4});
  Switch sw({}, std::vector<SwitchPortConfig>(5), routes, pool, 1, switch_number);
  std::vector<unsigned> chosen;
  Instant now{};
  for (std::uint16_t flow = 0; flow < 256; ++flow) {
    sw.receive(0, make_frame(pool, {.destination = 9, .udp_source_port = flow}), now);
    const unsigned port = sw.woken().front();
    sw.clear_woken();
    chosen.push_back(port);
    now = sw.next_deadline(port, now);
    pool.free(sw.advance(port, now).frame);
  }
  return chosen;
}

// Of 256 flows 64 would agree by chance, sigma 6.9.
TEST(Switch, ecmp__switches_choose_independently) {
  const std::vector<unsigned> first = choices(0);
  const std::vector<unsigned> second = choices(1);
  int agree = 0;
  for (std::size_t i = 0; i < first.size(); ++i) agree += first[i] == second[i];
  EXPECT_EQ(first, choices(0));
  EXPECT_NEAR(agree, 64, 4 * 6.9);
}

class HopRecord : public TelemetrySink {
 public:
  void on_dequeue(Frame&, const TelemetryHop& hop) override { hops.push_back(hop); }
  std::vector<TelemetryHop> hops;
};

TEST(Switch, telemetry__tells_rate_bytes_time_and_the_queue_behind) {
  HopRecord record;
  Rig rig({}, 2);
  rig.sw.set_telemetry(&record);
  for (int i = 0; i < 3; ++i) rig.inject(0, {.destination = 1}, at_us(1));
  rig.run_until(at_us(5));
  ASSERT_EQ(record.hops.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(record.hops[i].rate_bps, 100'000'000'000u);
    EXPECT_EQ(record.hops[i].tx_bytes, 1'024u * i);
    EXPECT_EQ(record.hops[i].at.ps, 1'000'000 + 81'920 * i);
  }
  // The first was alone when it left.
  EXPECT_EQ(record.hops[0].queue_bytes, 0u);
  EXPECT_EQ(record.hops[1].queue_bytes, 1'000u);
  EXPECT_EQ(record.hops[2].queue_bytes, 0u);
}

TEST(Switch, reset_statistics__starts_counters_and_queues_again) {
  Rig rig({}, 2);
  for (int i = 0; i < 9; ++i) rig.inject(0, {.destination = 1}, Instant{});
  rig.run_until(at_us(5));
  EXPECT_EQ(rig.sw.queue_statistics(1, 3)->max_bytes(), 8'000u);
  rig.sw.reset_statistics(at_us(5));
  EXPECT_EQ(rig.sw.counters(0, 3).rx_frames, 0u);
  EXPECT_EQ(rig.sw.queue_statistics(1, 3)->max_bytes(), 0u);
  EXPECT_EQ(rig.sw.queue_statistics(1, 0), nullptr);
}

// 1000 bytes wait for 321.92 ns behind 4000 on the wire, of 10 us since the warm-up.
TEST(Switch, queue_statistics__count_the_time_before_a_queue_was_used) {
  Rig rig({}, 2);
  rig.run_until(at_us(3));
  rig.sw.reset_statistics(at_us(3));
  rig.inject(0, {.destination = 1, .frame_bytes = 4'000}, at_us(8));
  rig.inject(0, {.destination = 1}, at_us(8));
  rig.run_until(at_us(13));
  EXPECT_NEAR(rig.sw.queue_statistics(1, 3)->mean_bytes(at_us(13)), 1'000 * 321'920 / 10e6, 1e-9);
}

TEST(Switch, check__names_what_is_wrong) {
  const std::vector<SwitchPortConfig> ports(4);
  const auto wrong = [&](auto change) {
    SwitchConfig config;
    change(config);
    return Switch::check(config, ports) != nullptr;
  };
  EXPECT_FALSE(wrong([](SwitchConfig&) {}));
  EXPECT_TRUE(wrong([](SwitchConfig& c) { c.red.kmin_bytes = c.red.kmax_bytes + 1; }));
  EXPECT_TRUE(wrong([](SwitchConfig& c) { c.red.pmax = 1.5; }));
  EXPECT_TRUE(wrong([](SwitchConfig& c) { c.buffer.alpha = 0; }));
  EXPECT_TRUE(wrong([](SwitchConfig& c) { c.tc_bw[2] = 60; }));
  EXPECT_TRUE(wrong([](SwitchConfig& c) { c.prio_tc[2] = 8; }));
  EXPECT_TRUE(wrong([](SwitchConfig& c) { c.pause_quanta = 1; }));
  // 4 ports with headroom of 33676 bytes, 4096 and 4272 beside it, are 168176 bytes.
  EXPECT_TRUE(wrong([](SwitchConfig& c) { c.pfc = 8, c.buffer.bytes = 168'176; }));
  EXPECT_FALSE(wrong([](SwitchConfig& c) { c.pfc = 8, c.buffer.bytes = 168'177; }));
}

TEST(Switch, runs__of_one_seed_are_the_same) {
  const auto run = [](std::uint64_t seed) {
    SwitchConfig config;
    config.red = {.kmin_bytes = 0, .kmax_bytes = 100'000, .pmax = 1};
    Rig rig(config, 4, seed);
    for (std::uint32_t host = 1; host < 4; ++host) rig.send({.source = host, .destination = 0}, 500);
    rig.run_until(at_us(200));
    return rig.sw.counters(0, 3).marks;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

}  // namespace
}  // namespace roci::fabric
