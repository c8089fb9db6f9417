#include "stack/egress/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

namespace roci::egress {
namespace {

constexpr std::uint32_t kFrameBytes = 1000;

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() {
    for (std::size_t i = 0; i < flows.size(); ++i) flows[i].priority = 3;
  }

  void ready(std::size_t index) { scheduler.schedule(flows[index], Instant{}, now); }
  /// The next `count` flows that send, by index, each with more to send; '-' for none.
  std::string served(int count) {
    std::string out;
    for (int i = 0; i < count; ++i) {
      Flow* flow = scheduler.take(now);
      if (flow == nullptr) {
        out += '-';
        continue;
      }
      out += std::to_string(flow - flows.data());
      scheduler.on_sent(*flow, kFrameBytes);
      scheduler.schedule(*flow, Instant{}, now);
    }
    return out;
  }

  Scheduler scheduler;
  std::array<Flow, 6> flows;
  Instant now{};
};

TEST_F(SchedulerTest, flows_of_a_priority_take_turns) {
  for (std::size_t i : {2, 0, 5}) ready(i);
  EXPECT_EQ(served(7), "2052052");
}

TEST_F(SchedulerTest, a_flow_is_queued_once_however_often_it_is_scheduled) {
  ready(1);
  ready(1);
  ready(1);
  EXPECT_EQ(scheduler.take(now), &flows[1]);
  EXPECT_EQ(scheduler.take(now), nullptr);
}

TEST_F(SchedulerTest, a_paced_flow_waits_for_its_time_and_the_newest_time_counts) {
  scheduler.schedule(flows[0], now + microseconds(10), now);
  EXPECT_EQ(scheduler.take(now), nullptr);
  EXPECT_EQ(scheduler.next_deadline(), now + microseconds(10));
  scheduler.schedule(flows[0], now + microseconds(4), now);
  EXPECT_EQ(scheduler.next_deadline(), now + microseconds(4));
  scheduler.schedule(flows[0], now + microseconds(6), now);
  now = now + microseconds(6);
  EXPECT_EQ(scheduler.take(now), &flows[0]);
  EXPECT_EQ(scheduler.next_deadline(), kNever);
}

TEST_F(SchedulerTest, strict_classes__the_higher_priority_first) {
  flows[0].priority = 1;
  flows[1].priority = 6;
  ready(0);
  ready(1);
  EXPECT_EQ(served(3), "111");
}

TEST_F(SchedulerTest, shares__by_weight_and_two_priorities_of_a_class_take_turns) {
  Settings settings;
  settings.prio_tc = {0, 0, 0, 1, 1, 0, 0, 0};
  settings.tc_bw = {50, 50, 0, 0, 0, 0, 0, 0};
  scheduler.configure(settings);
  flows[0].priority = 0;
  flows[1].priority = 3;
  flows[2].priority = 4;
  for (std::size_t i : {0, 1, 2}) ready(i);
  const std::string order = served(4000);
  EXPECT_NEAR(static_cast<double>(std::count(order.begin(), order.end(), '0')), 2000, 5);
  EXPECT_NEAR(static_cast<double>(std::count(order.begin(), order.end(), '1')), 1000, 5);
  EXPECT_NEAR(static_cast<double>(std::count(order.begin(), order.end(), '2')), 1000, 5);
}

TEST_F(SchedulerTest, a_paused_priority_is_passed_over_until_its_pause_ends) {
  flows[0].priority = 3;
  flows[1].priority = 0;
  ready(0);
  ready(1);
  scheduler.pauses().pause(3, microseconds(5), now);
  EXPECT_EQ(served(2), "11");
  EXPECT_EQ(scheduler.next_deadline(), now + microseconds(5)) << "when flow 0 may send again";
  now = now + microseconds(5);
  EXPECT_EQ(served(2), "00");
}

TEST_F(SchedulerTest, a_pause_without_anything_to_send__is_no_deadline) {
  scheduler.pauses().pause(3, microseconds(5), now);
  EXPECT_EQ(scheduler.next_deadline(), kNever);
}

TEST_F(SchedulerTest, a_blocked_flow_does_not_stand_in_the_way_and_comes_back) {
  ready(0);
  ready(1);
  Flow* first = scheduler.take(now);
  ASSERT_EQ(first, &flows[0]);
  scheduler.block(*first);
  ready(0);  // something happened to it meanwhile
  EXPECT_EQ(served(2), "11");
  scheduler.unblock();
  EXPECT_EQ(served(2), "10");
}

TEST_F(SchedulerTest, of_many_blocked_flows_those_that_waited_longest_come_back_first) {
  std::array<Flow, 2 * Scheduler::kRetries + 1> many;
  for (Flow& flow : many) scheduler.schedule(flow, now, now);
  for (std::size_t i = 0; i < many.size(); ++i) scheduler.block(*scheduler.take(now));
  std::size_t next = 0;
  const auto take_unblocked = [&] {
    std::size_t count = 0;
    for (; Flow* flow = scheduler.take(now); ++count) EXPECT_EQ(flow, &many[next++]);
    return count;
  };
  EXPECT_TRUE(scheduler.unblock());
  EXPECT_EQ(take_unblocked(), Scheduler::kRetries);
  EXPECT_TRUE(scheduler.unblock());
  EXPECT_EQ(take_unblocked(), Scheduler::kRetries);
  EXPECT_TRUE(scheduler.unblock());
  EXPECT_EQ(take_unblocked(), 1u);
  EXPECT_FALSE(scheduler.unblock()) << "all have come back";
}

TEST_F(SchedulerTest, many_blocked_flows_of_one_priority_do_not_hold_back_another) {
  std::array<Flow, 2 * Scheduler::kRetries> many;
  for (Flow& flow : many) scheduler.schedule(flow, now, now);
  for (std::size_t i = 0; i < many.size(); ++i) scheduler.block(*scheduler.take(now));
  flows[0].priority = 5;
  ready(0);
  scheduler.block(*scheduler.take(now));
  scheduler.unblock();
  EXPECT_EQ(flows[0].flow_state, FlowState::kReady);
  for (Flow& flow : many) scheduler.remove(flow);
  scheduler.remove(flows[0]);
  EXPECT_FALSE(scheduler.unblock());
}

TEST_F(SchedulerTest, remove__from_each_state) {
  ready(0);
  scheduler.schedule(flows[1], now + microseconds(1), now);
  ready(2);
  scheduler.take(now);  // flow 0 is idle
  scheduler.block(*scheduler.take(now));
  ready(3);
  for (Flow& flow : flows) {
    scheduler.remove(flow);
    EXPECT_EQ(flow.flow_state, FlowState::kIdle);
  }
  scheduler.unblock();
  EXPECT_EQ(scheduler.take(now + seconds(1)), nullptr);
  EXPECT_EQ(scheduler.next_deadline(), kNever);
  EXPECT_FALSE(scheduler.has_ready());
}

}  // namespace
}  // namespace roci::egress
