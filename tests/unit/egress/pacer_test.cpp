#include "stack/egress/pacer.h"

#include <gtest/gtest.h>

namespace roci::egress {
namespace {

constexpr std::uint64_t kGbps = 1'000'000'000;

TEST(WireTime, a_byte_is_80_ps_at_100G_and_800_ps_at_10G) {
  EXPECT_EQ(wire_time(1, 100 * kGbps).ps, 80);
  EXPECT_EQ(wire_time(1, 10 * kGbps).ps, 800);
  // A RoCE frame of MTU 4096 with an IPv4 header: 14 + 20 + 8 + 12 + 4096 + 4 = 4154 bytes, 24 more on the wire.
  EXPECT_EQ(wire_time(4154 + kWireOverheadBytes, 100 * kGbps).ps, 334'240);
}

TEST(Pacer, no_rate__is_no_limit) {
  Pacer pacer;
  pacer.on_sent(Instant{1000}, 1 << 20, {});
  EXPECT_FALSE(pacer.limited());
  EXPECT_EQ(pacer.next(), Instant{});
}

TEST(Pacer, frames_are_as_far_apart_as_their_bytes_take_at_the_rate) {
  Pacer pacer;
  pacer.set_rate(10 * kGbps);
  pacer.on_sent(Instant{5000}, 1000, {});
  EXPECT_EQ(pacer.next().ps, 5000 + 800'000);
  pacer.on_sent(pacer.next(), 500, {});
  EXPECT_EQ(pacer.next().ps, 5000 + 800'000 + 400'000);
}

TEST(Pacer, set_rate__moves_what_was_scheduled) {
  Pacer pacer;
  pacer.set_rate(10 * kGbps);
  pacer.on_sent(Instant{0}, 1000, {});
  pacer.set_rate(5 * kGbps);
  EXPECT_EQ(pacer.next().ps, 1'600'000) << "next = last + bytes x 8 / new rate";
  pacer.set_rate(40 * kGbps);
  EXPECT_EQ(pacer.next().ps, 200'000);
  pacer.set_rate(0);
  EXPECT_EQ(pacer.next(), Instant{});
}

TEST(Pacer, set_rate__the_first_limit_counts_from_the_last_frame_sent_without_one) {
  Pacer pacer;
  pacer.on_sent(Instant{7'000'000}, 1000, {});
  pacer.set_rate(10 * kGbps);
  EXPECT_EQ(pacer.next().ps, 7'800'000);
}

TEST(Pacer, late_frames__lose_their_place_beyond_the_catch_up) {
  Pacer pacer;
  pacer.set_rate(10 * kGbps);
  pacer.on_sent(Instant{0}, 1000, {});  // next at 800 ns
  pacer.on_sent(Instant{3'000'000}, 1000, {});
  EXPECT_EQ(pacer.next().ps, 3'800'000) << "no catching up";
  pacer.on_sent(Instant{10'000'000}, 1000, microseconds(2));
  EXPECT_EQ(pacer.next().ps, 8'800'000) << "as if sent 2 us ago";
  pacer.on_sent(Instant{10'000'000}, 1000, microseconds(2));
  EXPECT_EQ(pacer.next().ps, 9'600'000) << "no more than its own schedule gives: 8.8 us was due";
}

}  // namespace
}  // namespace roci::egress
