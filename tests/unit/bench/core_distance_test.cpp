#include "tools/roci/bench/core_distance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace roci::bench {
namespace {

/// A machine on which the n-th measurement gives n and meets the n-th list of round trips, the last for ever.
struct Machine {
  std::vector<std::vector<double>> round_trips_ns;
  int measured = 0;

  int measure_with(Steadiness& steadiness) {
    return steadiness.best_of([this] { return measured++; },
                              [this]() -> Looks {
                                if (measured == 0) return {};
                                const auto last = round_trips_ns.size() - 1;
                                return {round_trips_ns[std::min(static_cast<std::size_t>(measured - 1), last)]};
                              });
  }
};

TEST(Steadiness, NearForFourFifthsOfTheTimeCountsAtOnce) {
  Machine machine{.round_trips_ns = {{100, 110, 120, 105, 500}}};
  Steadiness steadiness;
  EXPECT_EQ(machine.measure_with(steadiness), 0);
  EXPECT_EQ(machine.measured, 1);
  EXPECT_EQ(steadiness.unsteady(), 0u);
  EXPECT_DOUBLE_EQ(steadiness.round_trip_ns().value(), 110);
}

TEST(Steadiness, IsMeasuredAgainUntilTheCoresAreNear) {
  Machine machine{.round_trips_ns = {{500, 510}, {100, 500}, {100, 120}, {100}}};
  Steadiness steadiness;
  EXPECT_EQ(machine.measure_with(steadiness), 2);
  EXPECT_EQ(machine.measured, 3);
  EXPECT_DOUBLE_EQ(steadiness.round_trip_ns().value(), 110);
}

TEST(Steadiness, TheBestCountsWhenNoneIsGood) {
  Machine machine{.round_trips_ns = {{500}, {500, 500, 100}, {500, 100}, {500}}};
  Steadiness steadiness;
  EXPECT_EQ(machine.measure_with(steadiness), 2);
  EXPECT_EQ(machine.measured, static_cast<int>(Steadiness::kMostTries));
  EXPECT_EQ(steadiness.unsteady(), 1u);
}

TEST(Steadiness, AMachineWhoseCoresAreNeverNearIsMeasuredAsItIs) {
  Machine machine{.round_trips_ns = {{600}}};
  Steadiness steadiness;
  for (unsigned tries = 0; tries < Steadiness::kNeverNear; tries += Steadiness::kMostTries)
    machine.measure_with(steadiness);
  const int before = machine.measured;
  machine.measure_with(steadiness);
  EXPECT_EQ(machine.measured, before + 1);
  EXPECT_DOUBLE_EQ(steadiness.round_trip_ns().value(), 600);
}

TEST(Steadiness, WithOneCoreEachCountsAtOnce) {
  Machine machine{.round_trips_ns = {{}}};
  Steadiness steadiness;
  EXPECT_EQ(machine.measure_with(steadiness), 0);
  EXPECT_EQ(machine.measured, 1);
  EXPECT_FALSE(steadiness.round_trip_ns().has_value());
}

TEST(DistanceMonitor, EndsWhateverItSaw) {
  DistanceMonitor monitor;
  for (const double ns : monitor.take().round_trips_ns) EXPECT_GT(ns, 1);
}

}  // namespace
}  // namespace roci::bench
