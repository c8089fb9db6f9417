#include "tools/lab/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tools/lab/statistics.h"

namespace roci::lab {
namespace {

constexpr Instant at(std::int64_t us) { return Instant{} + microseconds(us); }

FlowResult flow(std::uint32_t source, std::uint64_t bytes, std::int64_t start_us, std::int64_t end_us, Duration ideal) {
  return {.source = source,
          .destination = 0,
          .bytes = bytes,
          .unbounded = false,
          .start = at(start_us),
          .end = at(end_us),
          .ideal = ideal,
          .goodput_bps = 8'000'000'000,
          .retransmitted_packets = 0,
          .failed = false};
}

Scenario scenario() {
  Scenario out;
  out.name = "small.toml";
  out.topology.hosts = 3;
  out.hosts.resize(3);
  out.seed = 42;
  out.warmup = microseconds(10);
  return out;
}

/// Three flows: one of 1 KB that took twice as long as alone, one that is not done, and one without bound.
Result result() {
  Result out;
  out.flows.push_back(flow(1, 1'000, 20, 24, microseconds(2)));
  out.flows.push_back({.source = 2, .destination = 0, .bytes = 5'000'000, .start = at(20), .ideal = microseconds(400)});
  out.flows.push_back({.source = 2,
                       .destination = 1,
                       .bytes = 123'456,
                       .unbounded = true,
                       .goodput_bps = 10'000'000'000,
                       .retransmitted_packets = 3});
  out.queues.push_back(
      {.node = "switch0", .port = 1, .priority = 3, .mean_bytes = 1234.5, .p99_bytes = 5'000, .max_bytes = 6'000});
  out.total = {.goodput_bps = 18'000'000'000,
               .jain = 0.987654321,
               .marks = 7,
               .cnps = 5,
               .pfc_pauses = 2,
               .paused = nanoseconds(1'500),
               .drops = 4,
               .drops_by_reason = {{"no_route", 0}, {"buffer_full", 4}},
               .packet_hops = 321,
               .retransmitted_packets = 3,
               .damaged_bytes = 0};
  out.ended = at(100);
  out.wall_s = 1.5;
  return out;
}

TEST(Report, json__is_what_the_format_says) {
  EXPECT_EQ(result_json(scenario(), result(), "0.1.0", false),
            R"({
  "version": "0.1.0",
  "scenario": "small.toml",
  "seed": 42,
  "cc": "none",
  "total": {"goodput_bps":18000000000,"jain":0.987654,"marks":7,"cnps":5,"pfc_pauses":2,"paused_ns":1500,)"
            R"("drops":4,"drops_by_reason":{"no_route":0,"buffer_full":4},"packet_hops":321,)"
            R"("retransmitted_packets":3,"damaged_bytes":0,"ended_ns":100000},
  "fct": [
    {"size":"all","flows":1,"mean_ns":4000,"p50_ns":4000,"p95_ns":4000,"p99_ns":4000,"max_ns":4000,)"
            R"("slowdown_mean":2.0,"slowdown_p50":2.0,"slowdown_p95":2.0,"slowdown_p99":2.0,"slowdown_max":2.0},
    {"size":"<=10KB","flows":1,"mean_ns":4000,"p50_ns":4000,"p95_ns":4000,"p99_ns":4000,"max_ns":4000,)"
            R"("slowdown_mean":2.0,"slowdown_p50":2.0,"slowdown_p95":2.0,"slowdown_p99":2.0,"slowdown_max":2.0}
  ],
  "queues": [
    {"node":"switch0","port":1,"priority":3,"mean_bytes":1234.5,"p99_bytes":5000,"max_bytes":6000}
  ],
  "flows": [
    {"src":1,"dst":0,"bytes":1000,"start_ns":20000,"fct_ns":4000,"goodput_bps":8000000000,)"
            R"("retransmitted_packets":0,"unbounded":false,"failed":false,"slowdown":2.0},
    {"src":2,"dst":0,"bytes":5000000,"start_ns":20000,"fct_ns":null,"goodput_bps":0,)"
            R"("retransmitted_packets":0,"unbounded":false,"failed":false,"slowdown":null},
    {"src":2,"dst":1,"bytes":123456,"start_ns":0,"fct_ns":null,"goodput_bps":10000000000,)"
            R"("retransmitted_packets":3,"unbounded":true,"failed":false,"slowdown":null}
  ]
}
)");
}

TEST(Report, json__real_time_is_all_that_may_differ) {
  const auto with = nlohmann::json::parse(result_json(scenario(), result(), "0.1.0", true));
  auto without = nlohmann::json::parse(result_json(scenario(), result(), "0.1.0", false));
  EXPECT_EQ(with["total"]["wall_s"], 1.5);
  without["total"]["wall_s"] = 1.5;
  EXPECT_EQ(with, without);
}

TEST(Report, json__of_an_experiment_without_flows) {
  const auto json = nlohmann::json::parse(result_json(scenario(), Result{}, "0.1.0", false));
  EXPECT_TRUE(json["flows"].empty());
  EXPECT_TRUE(json["queues"].empty());
  EXPECT_EQ(json["fct"][0]["flows"], 0);
}

TEST(Report, summary__tables) {
  EXPECT_EQ(
      summary_text(scenario(), result()),
      R"(--------------------------------------------------------------------------------------------------------------
 Scenario  : small.toml                         Seed   : 42
 Topology  : star, 3 hosts                      Links  : 100Gbps, 1us
 Time      : 100us                              Warm-up: 10us
 CC        : none
--------------------------------------------------------------------------------------------------------------
 goodput[Gb/s]      Jain       marks        CNPs      pauses     paused[us]  retransmitted       drops
        18.000   0.98765           7           5           2          1.500              3           4
 Drops, buffer_full: 4
--------------------------------------------------------------------------------------------------------------
 size        flows  FCT[us] mean         50 %         99 %          max   slowdown      50 %      99 %       max
 all             1         4.000        4.000        4.000        4.000       2.00      2.00      2.00      2.00
 <=10KB          1         4.000        4.000        4.000        4.000       2.00      2.00      2.00      2.00
 Not done at the end: 1 flows
--------------------------------------------------------------------------------------------------------------
    src    dst           bytes       start[us]         FCT[us]  goodput[Gb/s]  retransmitted
      1      0            1000          20.000           4.000          8.000              0
      2      0         5000000          20.000               -          0.000              0
      2      1          123456           0.000               -         10.000              3
--------------------------------------------------------------------------------------------------------------
 queue of      port  priority      mean[KB]      99 %[KB]       max[KB]
 switch0          1         3         1.234         5.000         6.000
--------------------------------------------------------------------------------------------------------------
)");
}

TEST(Report, summary__failures_damage_and_several_algorithms_show) {
  Scenario mixed = scenario();
  mixed.hosts[2].cc_text = "dcqcn";
  Result bad = result();
  bad.flows[1].failed = true;
  bad.total.damaged_bytes = 9;
  const std::string text = summary_text(mixed, bad);
  EXPECT_NE(text.find(" CC        : none (2 hosts); dcqcn (1 hosts)\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" Failed flows: 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" DAMAGED bytes in the receivers' memory: 9\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("Not done"), std::string::npos) << text;
}

TEST(Report, csv__a_row_for_each_value_of_what_runs) {
  Result series = result();
  series.samples.push_back({.at = at(5), .rate_bps = {100, 0, 300}, .goodput_bps = {90, 0, 0}, .queue_bytes = {4096}});
  EXPECT_EQ(time_series_csv(series),
            "time_ns,what,of,value\n"
            "5000,rate_bps,flow0:1>0,100\n"
            "5000,goodput_bps,flow0:1>0,90\n"
            "5000,rate_bps,flow2:2>1,300\n"
            "5000,goodput_bps,flow2:2>1,0\n"
            "5000,queue_bytes,switch0:1:3,4096\n");
}

TEST(Report, flow_completion_times__nearest_rank_by_size) {
  std::vector<FlowResult> flows;
  // 1 to 100 us, alone 1 us: the slowdown is the number.
  for (std::int64_t i = 1; i <= 100; ++i) flows.push_back(flow(1, i <= 60 ? 10'000 : 10'001, 0, i, microseconds(1)));
  flows.push_back(flow(1, 20'000'000, 0, 1'000, microseconds(100)));
  const std::vector<SizeClass> classes = flow_completion_times(flows, Instant{});
  ASSERT_EQ(classes.size(), 4u);
  EXPECT_EQ(classes[0].name, "all");
  EXPECT_EQ(classes[0].flows, 101u);
  EXPECT_EQ(classes[0].mean, picoseconds(6'050'000'000 / 101));
  EXPECT_EQ(classes[0].p50, microseconds(51));
  EXPECT_EQ(classes[0].p95, microseconds(96));
  EXPECT_EQ(classes[0].p99, microseconds(100));
  EXPECT_EQ(classes[0].max, microseconds(1000));
  EXPECT_EQ(classes[0].slowdown_max, 100);
  EXPECT_EQ(classes[1].name, "<=10KB");
  EXPECT_EQ(classes[1].flows, 60u);
  EXPECT_EQ(classes[1].p99, microseconds(60));
  EXPECT_EQ(classes[1].slowdown_p50, 30);
  EXPECT_EQ(classes[2].name, "<=100KB");
  EXPECT_EQ(classes[2].flows, 40u);
  EXPECT_EQ(classes[3].name, ">10MB");
  EXPECT_EQ(classes[3].slowdown_mean, 10);
}

TEST(Report, flow_completion_times__leaves_out_warm_up_failures_and_what_has_no_end) {
  std::vector<FlowResult> flows{flow(1, 1'000, 9, 12, microseconds(1)), flow(1, 1'000, 10, 12, microseconds(1)),
                                flow(1, 1'000, 10, 19, microseconds(1)), flow(1, 1'000, 10, 19, microseconds(1))};
  flows[2].failed = true;
  flows[3].end = kNever;
  const std::vector<SizeClass> classes = flow_completion_times(flows, at(10));
  EXPECT_EQ(classes[0].flows, 1u);
  EXPECT_EQ(classes[0].max, microseconds(2));
}

TEST(Report, sweep__a_row_has_the_longest_queue) {
  Result several = result();
  several.queues.push_back(
      {.node = "switch1", .port = 0, .priority = 3, .mean_bytes = 9'000, .p99_bytes = 20'000, .max_bytes = 30'000});
  EXPECT_EQ(sweep_header("a  "),
            "a    goodput[Gb/s]      Jain     queue[KB]      99 %[KB]       marks        CNPs      pauses       drops  "
            "slowdown 50 %   slowdown 99 %\n");
  EXPECT_EQ(sweep_row("1  ", scenario(), several),
            "1           18.000   0.98765         9.000        20.000           7           5           2           4  "
            "         2.00            2.00\n");
}

}  // namespace
}  // namespace roci::lab
