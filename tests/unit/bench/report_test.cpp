#include "tools/roci/bench/report.h"

#include <gtest/gtest.h>

#include <string>

namespace roci::bench {
namespace {

Result measured(double value) { return {.samples = {value}, .absent = "", .limit = ""}; }

/// A cable that carries `cable` Gb/s on a core that copies and checks 200, and a write of 120.
Report report_with_cable(double cable) {
  Report report{
      .machine = {"Some CPU", 2, "6.1.0", 120.4, 3}, .version = "1.2.3", .rounds = 5, .rows = {}, .results = {}};
  report.rows = select("write-64k");
  report.results = {{"core-4154", measured(200)}, {"cable-4154", measured(cable)}, {"write-64k", measured(120)}};
  report.results["write-64k"].limit = "the client's core";
  report.results["tcp"].absent = "iperf3 is not installed";
  return report;
}

nlohmann::ordered_json json_row(const Report& report, std::string_view id) {
  const nlohmann::ordered_json document = to_json(report);
  for (const auto& row : document["rows"])
    if (row["id"] == id) return row;
  return nullptr;
}

TEST(Report, AGoodYardstickGivesRatios) {
  const Report report = report_with_cable(160);
  EXPECT_EQ(yardstick_warning(report.results), "");
  const std::string text = to_text(report, false);
  EXPECT_NE(text.find("120 Gb/s  0.75 of the bare cable"), std::string::npos) << text;
  EXPECT_NE(text.find("at least 0.6"), std::string::npos) << text;
  EXPECT_NE(text.find("the client's core"), std::string::npos) << text;
  const auto row = json_row(report, "write-64k");
  EXPECT_DOUBLE_EQ(row["figure"].get<double>(), 120);
  ASSERT_EQ(row["comparisons"].size(), 1u);
  EXPECT_DOUBLE_EQ(row["comparisons"][0]["ratio"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(row["comparisons"][0]["at_least"].get<double>(), 96);
  EXPECT_TRUE(row["comparisons"][0]["met"].get<bool>());
}

TEST(Report, TheDistanceOfTheCoresIsSaid) {
  const Report report = report_with_cable(160);
  const std::string text = to_text(report, false);
  EXPECT_NE(text.find("Linux 6.1.0; 120 ns from one core to another and back, 3 measurements with more"),
            std::string::npos)
      << text;
  EXPECT_DOUBLE_EQ(to_json(report)["machine"]["core_round_trip_ns"].get<double>(), 120.4);
  EXPECT_EQ(to_json(report)["unsteady"].get<unsigned>(), 3u);
}

TEST(Report, ABadYardstickIsSaidFirstAndGivesNoRatios) {
  const Report report = report_with_cable(100);
  const std::string text = to_text(report, false);
  EXPECT_TRUE(text.starts_with("The yardstick is bad: the bare cable carries 0.50 of")) << text;
  EXPECT_NE(text.find("120 Gb/s"), std::string::npos) << "the figure stays";
  EXPECT_EQ(text.find(" of the bare cable"), std::string::npos) << text;
  EXPECT_TRUE(json_row(report, "write-64k")["comparisons"].empty());
  EXPECT_FALSE(to_json(report)["yardstick"]["good"].get<bool>());
}

TEST(Report, WhatWasNotMeasuredSaysWhy) {
  const Report report = report_with_cable(160);
  EXPECT_EQ(json_row(report, "tcp")["absent"], "iperf3 is not installed");
  const std::string markdown = to_markdown(report);
  EXPECT_NE(markdown.find("| absent |  |  |  | iperf3 is not installed |"), std::string::npos) << markdown;
}

TEST(Report, MissedIsSaid) {
  Report report = report_with_cable(160);
  report.results["write-64k"] = measured(90);
  EXPECT_NE(to_markdown(report).find("| 90.0 Gb/s | 0.56 of the bare cable | at least 0.6 | missed |"),
            std::string::npos)
      << to_markdown(report);
}

TEST(Report, ASectionIsReplacedAndTheRestStays) {
  const std::string document =
      std::string("# Title\n\n") + std::string(kSectionBegin) + "\nold\n" + std::string(kSectionEnd) + "\n\nafter\n";
  const std::string replaced = replace_section(document, "new\n");
  EXPECT_TRUE(replaced.starts_with("# Title\n\n<!-- roci bench: begin -->\n\nnew\n")) << replaced;
  EXPECT_TRUE(replaced.ends_with("<!-- roci bench: end -->\n\nafter\n")) << replaced;
  EXPECT_EQ(replaced.find("old"), std::string::npos);
  EXPECT_EQ(replace_section(replaced, "new\n"), replaced) << "twice is once";
}

TEST(Report, ADocumentWithoutMarksIsNotTouched) {
  EXPECT_EQ(replace_section("# Title\n", "new\n"), "");
  EXPECT_EQ(replace_section(std::string(kSectionEnd) + "\n" + std::string(kSectionBegin), "new\n"), "");
}

}  // namespace
}  // namespace roci::bench
