#include "drivers/fabric/queue_statistics.h"

#include <gtest/gtest.h>

namespace roci::fabric {
namespace {

// 100 bytes for 30 ns, 50 for 60 ns, 127 for 10 ns: (3000 + 3000 + 1270) / 100.
TEST(QueueStatistics, mean_and_quantiles__are_weighted_by_time) {
  QueueStatistics queue{Instant{}};
  queue.change(100, Instant{});
  queue.change(50, Instant{30'000});
  queue.change(127, Instant{90'000});
  const Instant end{100'000};
  EXPECT_DOUBLE_EQ(queue.mean_bytes(end), 72.7);
  EXPECT_EQ(queue.quantile_bytes(0.5, end), 50u);
  EXPECT_EQ(queue.quantile_bytes(0.60, end), 50u);
  EXPECT_EQ(queue.quantile_bytes(0.61, end), 100u);
  EXPECT_EQ(queue.quantile_bytes(0.90, end), 100u);
  EXPECT_EQ(queue.quantile_bytes(0.99, end), 127u);
  EXPECT_EQ(queue.max_bytes(), 127u);
}

TEST(QueueStatistics, quantile__counts_the_present_length_up_to_now) {
  QueueStatistics queue{Instant{}};
  queue.change(50, Instant{});
  queue.change(10, Instant{100});
  EXPECT_EQ(queue.quantile_bytes(0.5, Instant{1'000}), 10u);
  EXPECT_EQ(queue.quantile_bytes(0.5, Instant{150}), 50u);
}

TEST(QueueStatistics, reset__keeps_the_present_length_only) {
  QueueStatistics queue{Instant{}};
  queue.change(1'000'000, Instant{});
  queue.change(40, Instant{1'000});
  queue.reset(Instant{2'000});
  EXPECT_DOUBLE_EQ(queue.mean_bytes(Instant{3'000}), 40);
  EXPECT_EQ(queue.quantile_bytes(0.99, Instant{3'000}), 40u);
  EXPECT_EQ(queue.max_bytes(), 40u);
}

TEST(QueueStatistics, quantile__of_long_queues_is_right_to_1_in_64) {
  for (std::uint64_t bytes = 1; bytes < 4'000'000'000; bytes = bytes * 5 / 3 + 1) {
    QueueStatistics queue{Instant{}};
    queue.change(bytes, Instant{});
    queue.change(bytes * 3, Instant{990});
    const std::uint64_t p90 = queue.quantile_bytes(0.9, Instant{1'000});
    EXPECT_GE(p90, bytes);
    EXPECT_LE(p90, bytes + bytes / 64);
  }
}

TEST(QueueStatistics, mean__does_not_overflow_in_an_hour) {
  QueueStatistics queue{Instant{}};
  queue.change(1'000'000'000, Instant{});
  EXPECT_DOUBLE_EQ(queue.mean_bytes(Instant{} + seconds(3'600)), 1e9);
}

}  // namespace
}  // namespace roci::fabric
