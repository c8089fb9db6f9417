#include "tools/roci/bench/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace roci::bench {
namespace {

const Row& row(std::string_view id) {
  for (const Row& each : rows())
    if (each.id == id) return each;
  throw std::out_of_range(std::string(id));
}

std::set<std::string_view> ids(const std::vector<const Row*>& selected) {
  std::set<std::string_view> found;
  for (const Row* each : selected) found.insert(each->id);
  return found;
}

TEST(Table, MedianOfOddEvenAndNone) {
  EXPECT_DOUBLE_EQ(median({9, 1, 5}), 5);
  EXPECT_DOUBLE_EQ(median({4, 1, 9, 2}), 3);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Table, ARowIsJudgedByMedians) {
  // 0.6 of the cable and 4 times TCP: 120 / 180 and 120 / 25.
  const Results results{{"write-64k", {.samples = {120, 10, 130}, .absent = "", .limit = ""}},
                        {"cable-4154", {.samples = {180, 170, 200}, .absent = "", .limit = ""}},
                        {"tcp", {.samples = {25}, .absent = "", .limit = ""}}};
  const auto judgements = judge(row("write-64k"), results);
  ASSERT_EQ(judgements.size(), 2u) << "UCX was not measured";
  EXPECT_NEAR(*judgements[0].ratio, 0.667, 0.001);
  EXPECT_DOUBLE_EQ(judgements[0].bound, 108);
  EXPECT_TRUE(judgements[0].met);
  EXPECT_NEAR(*judgements[1].ratio, 4.8, 0.001);
  EXPECT_TRUE(judgements[1].met);
}

TEST(Table, AtLeastIsMissedFromBelow) {
  const Results results{{"read-64k", {.samples = {89.9}, .absent = "", .limit = ""}},
                        {"write-64k", {.samples = {100}, .absent = "", .limit = ""}}};
  const auto judgements = judge(row("read-64k"), results);
  ASSERT_EQ(judgements.size(), 1u);
  EXPECT_FALSE(judgements[0].met);
}

TEST(Table, AtMostAllowsAFixedPartAboveTheOther) {
  // Half a round trip of the bare cable and 0.5 us.
  Results results{{"send-latency", {.samples = {0.6}, .absent = "", .limit = ""}},
                  {"cable-latency", {.samples = {0.1}, .absent = "", .limit = ""}}};
  EXPECT_DOUBLE_EQ(judge(row("send-latency"), results)[0].bound, 0.6);
  EXPECT_TRUE(judge(row("send-latency"), results)[0].met);
  results["send-latency"].samples = {0.61};
  EXPECT_FALSE(judge(row("send-latency"), results)[0].met);
}

TEST(Table, ATargetThatIsANumberNeedsNoOtherRow) {
  const auto judgements = judge(row("idle"), {{"idle", {.samples = {0.02}, .absent = "", .limit = ""}}});
  ASSERT_EQ(judgements.size(), 1u);
  EXPECT_FALSE(judgements[0].ratio.has_value());
  EXPECT_FALSE(judgements[0].met) << "2 % of a core";
}

TEST(Table, ARowWithoutSamplesIsNotJudged) {
  EXPECT_TRUE(judge(row("idle"), {{"idle", {.samples = {}, .absent = "why", .limit = ""}}}).empty());
  EXPECT_TRUE(judge(row("idle"), {}).empty());
}

TEST(Table, TheYardstickIsSixTenthsOfOneCore) {
  Results results{{"cable-4154", {.samples = {60}, .absent = "", .limit = ""}},
                  {"core-4154", {.samples = {100}, .absent = "", .limit = ""}}};
  EXPECT_DOUBLE_EQ(yardstick(results).value(), 0.6);
  EXPECT_TRUE(yardstick_is_good(results));
  results["cable-4154"].samples = {59};
  EXPECT_FALSE(yardstick_is_good(results));
  results.erase("core-4154");
  EXPECT_FALSE(yardstick(results).has_value());
  EXPECT_FALSE(yardstick_is_good(results));
}

TEST(Table, IdsDifferAndComparisonsNameRows) {
  std::set<std::string_view> all;
  for (const Row& each : rows()) EXPECT_TRUE(all.insert(each.id).second) << each.id;
  for (const Row& each : rows())
    for (const Comparison& comparison : each.comparisons)
      EXPECT_TRUE(comparison.of.empty() || all.contains(comparison.of)) << each.id;
}

TEST(Table, OneUnitOnBothSidesOfAComparison) {
  for (const Row& each : rows())
    for (const Comparison& comparison : each.comparisons)
      EXPECT_EQ(each.unit, comparison.of.empty() ? each.unit : row(comparison.of).unit) << each.id;
}

TEST(Table, SelectingBringsWhatTheRowsAreComparedWith) {
  EXPECT_EQ(ids(select("read-64k")), (std::set<std::string_view>{"read-64k", "write-64k", "cable-4154", "core-4154"}));
  EXPECT_EQ(ids(select("ATOMIC-latency")).count("send-latency"), 1u) << "any case";
  EXPECT_EQ(select("").size(), rows().size());
  EXPECT_TRUE(select("no such row").empty());
}

TEST(Table, FiguresWithThreeDigitsThatCount) {
  EXPECT_EQ(format_figure(101.25, Unit::kGbps), "101 Gb/s");
  EXPECT_EQ(format_figure(8'123'456, Unit::kMessages), "8.12 M/s");
  EXPECT_EQ(format_figure(812'345, Unit::kMessages), "812 k/s");
  EXPECT_EQ(format_figure(0.664, Unit::kMicroseconds), "0.664 us");
  EXPECT_EQ(format_figure(4341.8, Unit::kMicroseconds), "4.34 ms");
  EXPECT_EQ(format_figure(0.0042, Unit::kCore), "0.420 % of a core");
  EXPECT_EQ(format_figure(2699, Unit::kBytes), "2699 B");
}

}  // namespace
}  // namespace roci::bench
