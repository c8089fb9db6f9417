#include "tools/lab/sweep.h"

#include <gtest/gtest.h>

namespace roci::lab {
namespace {

TEST(Sweep, parse_swept_key__commas_or_semicolons) {
  const auto sizes = parse_swept_key("switch.kmin=5KB,10KB,20KB");
  EXPECT_EQ(sizes.wrong, "");
  EXPECT_EQ(sizes.value.key, "switch.kmin");
  EXPECT_EQ(sizes.value.values, (std::vector<std::string>{"5KB", "10KB", "20KB"}));
  EXPECT_EQ(parse_swept_key("cc=none;dcqcn,preset=mlx").value.values,
            (std::vector<std::string>{"none", "dcqcn,preset=mlx"}));
  EXPECT_EQ(parse_swept_key("run.seed=1").value.values, std::vector<std::string>{"1"});
  EXPECT_EQ(parse_swept_key("run.seed").wrong, "--sweep run.seed: not of the form table.key=value,value...");
  EXPECT_EQ(parse_swept_key("run.seed=").wrong, "--sweep run.seed=: not of the form table.key=value,value...");
  EXPECT_EQ(parse_swept_key("=1").wrong, "--sweep =1: not of the form table.key=value,value...");
  EXPECT_EQ(parse_swept_key("run.seed=1,,2").wrong, "--sweep run.seed=1,,2: an empty value");
  EXPECT_EQ(parse_swept_key("run.seed=1,").wrong, "--sweep run.seed=1,: an empty value");
}

TEST(Sweep, combinations__the_last_key_changes_first) {
  EXPECT_EQ(combinations({{"a", {"1", "2"}}, {"b", {"x", "y"}}}),
            (std::vector<Combination>{{"1", "x"}, {"1", "y"}, {"2", "x"}, {"2", "y"}}));
  EXPECT_EQ(combinations({}), std::vector<Combination>{{}});
}

TEST(Sweep, changes_of__come_after_those_of_all_runs) {
  const ScenarioChanges changes =
      changes_of({{"cc", {}}, {"host.mtu", {}}}, {"none", "512"}, {.cc = "dcqcn", .sets = {"host.mtu=256"}});
  EXPECT_EQ(changes.cc, "none");
  EXPECT_EQ(changes.sets, (std::vector<std::string>{"host.mtu=256", "host.mtu=512"}));
}

TEST(Sweep, numbered_path__before_the_extension) {
  EXPECT_EQ(numbered_path("out.json", 7, 100), "out.07.json");
  EXPECT_EQ(numbered_path("out.json", 7, 101), "out.007.json");
  EXPECT_EQ(numbered_path("dir.d/out", 0, 1), "dir.d/out.0");
}

}  // namespace
}  // namespace roci::lab
