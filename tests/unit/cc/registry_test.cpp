#include "cc/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cc/dcqcn.h"

namespace roci {
namespace {

DcqcnParameters parameters_of(const std::string& text) {
  const Parsed<CcSpec> parsed = parse_cc(text);
  EXPECT_EQ(parsed.wrong, "") << text;
  return *static_cast<const DcqcnParameters*>(parsed.value.parameters.get());
}

TEST(CcRegistry, none__has_no_algorithm_and_answers_no_marks) {
  const Parsed<CcSpec> parsed = parse_cc("none");
  EXPECT_TRUE(parsed);
  EXPECT_EQ(parsed.value.make, nullptr);
  EXPECT_FALSE(parsed.value.sends_cnps);
  EXPECT_EQ(parse_cc("none,rate=1Gbps").wrong, "none: it has no keys, but got \"rate\"");
}

TEST(CcRegistry, dcqcn__is_a_notification_point_too) {
  const CcSpec paper = parse_cc("dcqcn").value;
  EXPECT_TRUE(paper.sends_cnps);
  EXPECT_EQ(paper.cnp_interval, microseconds(50));
  EXPECT_EQ(parse_cc("dcqcn,preset=mlx").value.cnp_interval, microseconds(4));
  EXPECT_EQ(parse_cc("dcqcn,min_time_between_cnps=0us").value.cnp_interval, Duration{});
}

TEST(CcRegistry, dcqcn__a_key_wins_over_the_preset_on_either_side_of_it) {
  for (const char* text : {"dcqcn,preset=mlx,rpg_time_reset=300.5us", "dcqcn,rpg_time_reset=300.5us,preset=mlx"}) {
    const DcqcnParameters parameters = parameters_of(text);
    EXPECT_EQ(parameters.increase_period, nanoseconds(300'500));
    EXPECT_EQ(parameters.monitor_period, microseconds(4));
  }
}

TEST(CcRegistry, dcqcn__every_key_is_set) {
  const DcqcnParameters p = parameters_of(
      "dcqcn,form=sampled,rpg_time_reset=1ms,rpg_byte_reset=2MB,rpg_threshold=3,rpg_ai_rate=4Mbps,rpg_hai_rate=5Mbps,"
      "rpg_gd=12,rpg_min_dec_fac=7,rpg_min_rate=8Mbps,rpg_max_rate=9Gbps,clamp_tgt_rate=0,"
      "clamp_tgt_rate_after_time_inc=1,dce_tcp_g=1/16,dce_tcp_rtt=10us,initial_alpha_value=50%,"
      "rate_reduce_monitor_period=11us,rate_to_set_on_first_cnp=12Gbps,min_time_between_cnps=13us,hai_multiplier=1,"
      "hai_halving=1,extra_fast_recovery=1");
  EXPECT_EQ(p.form, DcqcnParameters::Form::kSampled);
  EXPECT_EQ(p.increase_period, milliseconds(1));
  EXPECT_EQ(p.byte_counter, 2'000'000u);
  EXPECT_EQ(p.threshold, 3u);
  EXPECT_EQ(p.additive_step.bps, 4'000'000u);
  EXPECT_EQ(p.hyper_step.bps, 5'000'000u);
  EXPECT_EQ(p.gd, 12);
  EXPECT_EQ(p.min_dec_fac, 7);
  EXPECT_EQ(p.min_rate_bps, 8'000'000u);
  EXPECT_EQ(p.max_rate_bps, 9'000'000'000u);
  EXPECT_EQ(p.clamp_tgt_rate, 0);
  EXPECT_EQ(p.clamp_after_timer, 1);
  EXPECT_EQ(p.g, 0.0625);
  EXPECT_EQ(p.alpha_period, microseconds(10));
  EXPECT_EQ(p.initial_alpha, 0.5);
  EXPECT_EQ(p.monitor_period, microseconds(11));
  EXPECT_EQ(p.first_cnp_bps, 12'000'000'000u);
  EXPECT_EQ(p.cnp_interval, microseconds(13));
  EXPECT_EQ(p.hyper_multiplier, 1);
  EXPECT_EQ(p.hyper_halving, 1);
  EXPECT_EQ(p.extra_recovery, 1);
}

TEST(CcRegistry, dcqcn__fractions_as_nvidia_writes_them) {
  // mlxconfig: DCE_TCP_G 1019 is g = (1024 - 1019) / 1024, INITIAL_ALPHA_VALUE 1023 is 1023/1024.
  const DcqcnParameters p = parameters_of("dcqcn,dce_tcp_g=1019,initial_alpha_value=1023");
  EXPECT_EQ(p.g, 5.0 / 1024);
  EXPECT_EQ(p.initial_alpha, 1023.0 / 1024);
  EXPECT_EQ(parameters_of("dcqcn,initial_alpha_value=1").initial_alpha, 1.0);
  EXPECT_FALSE(parse_cc("dcqcn,dce_tcp_g=1024"));
  EXPECT_FALSE(parse_cc("dcqcn,dce_tcp_g=0"));
}

TEST(CcRegistry, parse_cc__what_is_wrong_names_what_was_meant) {
  const std::pair<const char*, const char*> cases[] = {
      {"dcqn", "no congestion control is called \"dcqn\", nearest: \"dcqcn\"; there are none, fixed, dcqcn"},
      {"", "no congestion control is called \"\"; there are none, fixed, dcqcn"},
      {"dcqcn,rpg_time_rest=300us", "dcqcn: no key is called \"rpg_time_rest\", nearest: \"rpg_time_reset\""},
      {"dcqcn,prset=mlx", "dcqcn: no key is called \"prset\", nearest: \"preset\""},
      {"dcqcn,preset=mlxx", "dcqcn: preset: \"mlxx\" is not one of paper, mlx, nearest: \"mlx\""},
      {"dcqcn,form=sample", "dcqcn: form: \"sample\" is not one of event, sampled, nearest: \"sampled\""},
      {"dcqcn,rpg_time_reset=300", "dcqcn: rpg_time_reset: \"300\" has no unit: us, ns, ms, s, as in 300us"},
      {"dcqcn,rpg_ai_rate=5", "dcqcn: rpg_ai_rate: \"5\" has no unit: Gbps, Mbps, Kbps, bps, as in 5Gbps"},
      {"dcqcn,rpg_byte_reset=0", "dcqcn: rpg_byte_reset: \"0\" has no unit: KB, B, MB, KiB, MiB, as in 0KB; or off"},
      {"dcqcn,rpg_threshold=5us", "dcqcn: rpg_threshold: \"5us\" is not a whole number"},
      {"dcqcn,rpg_threshold=0", "dcqcn: rpg_threshold: \"0\" is not within 1 to 31"},
      {"dcqcn,rpg_threshold", "dcqcn: \"rpg_threshold\" is not of the form key=value"},
      {"dcqcn,", "dcqcn: \"\" is not of the form key=value"},
      {"dcqcn,rpg_gd=11,rpg_gd=12", "dcqcn: rpg_gd is given twice"},
      {"dcqcn,timer_only=1,rpg_byte_reset=10MB", "dcqcn: timer_only=1 has no byte counter: leave rpg_byte_reset out"},
      {"dcqcn,rate_reduce_monitor_period=4us", "dcqcn: rate_reduce_monitor_period needs form=sampled"},
      {"dcqcn,rpg_max_rate=50Mbps", "dcqcn: rpg_max_rate is below rpg_min_rate, 100Mbps"},
  };
  for (const auto& [text, wrong] : cases) EXPECT_EQ(parse_cc(text).wrong, wrong) << text;
}

TEST(CcRegistry, cc_help__has_every_key_with_the_defaults_of_each_preset) {
  const std::string help = cc_help();
  for (const CcAlgorithm* algorithm : cc_algorithms()) {
    EXPECT_NE(help.find(std::string(algorithm->name) + ": "), std::string::npos);
    for (const CcKeyHelp& key : algorithm->keys())
      EXPECT_NE(help.find("  " + std::string(key.name) + ": "), std::string::npos) << key.name;
  }
  EXPECT_NE(help.find("rpg_time_reset: T, between timer events [paper 55us, mlx 300us]\n"), std::string::npos) << help;
  EXPECT_NE(help.find("[paper 1/256, mlx 5/1024]"), std::string::npos) << help;
  EXPECT_NE(help.find("window: unacknowledged bytes at most [off]\n"), std::string::npos) << help;
}

TEST(CcRegistry, docs__have_every_key_of_dcqcn_with_its_defaults) {
  std::ifstream file(ROCI_DOCS_DIR "/congestion-control.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(line);
  ASSERT_FALSE(rows.empty());
  for (const CcKeyHelp& key : kDcqcnAlgorithm.keys()) {
    const std::string begin = "| `" + std::string(key.name) + "` |";
    std::string end = "|";
    for (const std::string& value : key.defaults) end += (value.empty() ? " |" : " " + value + " |");
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(),
                            [&](const std::string& row) { return row.starts_with(begin) && row.ends_with(end); }))
        << begin << " ... " << end;
  }
}

}  // namespace
}  // namespace roci
