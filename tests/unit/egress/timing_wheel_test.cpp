#include "stack/egress/timing_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "stack/base/random.h"

namespace roci::egress {
namespace {

/// Everything due at `now`, in the order in which it comes out.
std::vector<Flow*> due(TimingWheel& wheel, Instant now) {
  std::vector<Flow*> out;
  wheel.expire(now, [&out](Flow& flow) { out.push_back(&flow); });
  return out;
}

TEST(TimingWheel, a_flow_comes_out_at_its_time_and_not_before) {
  TimingWheel wheel;
  Flow flow;
  wheel.insert(flow, Instant{} + microseconds(5), Instant{});
  EXPECT_EQ(wheel.earliest(), Instant{} + microseconds(5));
  EXPECT_TRUE(due(wheel, Instant{} + microseconds(5) - picoseconds(1)).empty());
  EXPECT_EQ(due(wheel, Instant{} + microseconds(5)), std::vector{&flow});
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.earliest(), kNever);
}

TEST(TimingWheel, two_flows_of_one_slot__each_at_its_own_time) {
  TimingWheel wheel;
  Flow first;
  Flow second;
  wheel.insert(second, Instant{20'000}, Instant{});
  wheel.insert(first, Instant{10'000}, Instant{});
  EXPECT_EQ(wheel.earliest(), Instant{10'000});
  EXPECT_EQ(due(wheel, Instant{10'000}), std::vector{&first});
  EXPECT_EQ(wheel.earliest(), Instant{20'000});
  EXPECT_EQ(due(wheel, Instant{20'000}), std::vector{&second});
}

TEST(TimingWheel, beyond_a_round__it_is_looked_at_on_the_way_and_comes_out_in_time) {
  TimingWheel wheel;
  Flow flow;
  const Instant at = Instant{} + milliseconds(1);
  wheel.insert(flow, at, Instant{});
  Instant now{};
  int looks = 0;
  while (wheel.earliest() < at) {
    ASSERT_GT(wheel.earliest(), now);
    now = wheel.earliest();
    ASSERT_TRUE(due(wheel, now).empty());
    ASSERT_LT(++looks, 10) << "a round is 134 us";
  }
  EXPECT_EQ(due(wheel, at), std::vector{&flow});
}

TEST(TimingWheel, remove__takes_it_out) {
  TimingWheel wheel;
  Flow flow;
  Flow other;
  wheel.insert(flow, Instant{1000}, Instant{});
  wheel.insert(other, Instant{2000}, Instant{});
  wheel.remove(flow);
  EXPECT_EQ(due(wheel, Instant{} + seconds(1)), std::vector{&other});
}

TEST(TimingWheel, a_time_that_has_passed__is_due_at_once) {
  TimingWheel wheel;
  Flow flow;
  const Instant now = Instant{} + seconds(3);
  wheel.insert(flow, Instant{5}, now);
  EXPECT_EQ(due(wheel, now), std::vector{&flow});
}

/// Against a sorted map: whatever is put in, moved and taken out, a flow comes out at the first look at or after its
/// time, and earliest() never lets that time pass.
TEST(TimingWheel, random_flows__come_out_when_due) {
  const std::uint64_t seed = 20261203;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed, 0);
  TimingWheel wheel;
  std::vector<Flow> flows(50);
  std::map<Flow*, Instant> model;
  Instant now{};
  for (int step = 0; step < 20'000; ++step) {
    Flow& flow = flows[random.below(flows.size())];
    if (model.erase(&flow) != 0) wheel.remove(flow);
    if (random.below(4) != 0) {
      const std::int64_t longest = random.below(8) == 0 ? milliseconds(2).ps : microseconds(20).ps;
      const Instant at =
          now + picoseconds(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(longest))));
      wheel.insert(flow, at, now);
      model[&flow] = at;
    }
    Instant first = kNever;
    for (const auto& [waiting, at] : model) first = std::min(first, at);
    ASSERT_LE(wheel.earliest(), first);
    ASSERT_EQ(wheel.empty(), model.empty());
    if (random.below(2) == 0) continue;
    now = random.below(3) == 0 && first != kNever
              ? std::max(now, first)
              : now + picoseconds(static_cast<std::int64_t>(random.below(5'000'000)));
    for (Flow* out : due(wheel, now)) {
      ASSERT_EQ(model.count(out), 1u);
      ASSERT_LE(model[out], now);
      model.erase(out);
    }
    for (const auto& [waiting, at] : model) ASSERT_GT(at, now);
  }
}

}  // namespace
}  // namespace roci::egress
