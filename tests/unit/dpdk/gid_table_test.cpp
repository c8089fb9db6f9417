#include "drivers/dpdk/gid_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace roci::dpdk {
namespace {

constexpr IpAddress kA = IpAddress::v4(0xc612'0001);
constexpr IpAddress kB = IpAddress::v4(0xc612'0002);
constexpr IpAddress kC = IpAddress::v4(0xc612'0003);
constexpr IpAddress kNone{};

TEST(GidTable, update_gids__what_stays_keeps_its_row) {
  std::vector<IpAddress> table = {kA, kB, kC};
  update_gids(table, {kC, kA});
  EXPECT_EQ(table, (std::vector<IpAddress>{kA, kNone, kC}));
}

TEST(GidTable, update_gids__what_comes_takes_the_first_empty_row_then_a_new_one) {
  std::vector<IpAddress> table = {kA, kNone, kC};
  const IpAddress d = IpAddress::v4(0xc612'0004);
  update_gids(table, {kA, kC, kB, d});
  EXPECT_EQ(table, (std::vector<IpAddress>{kA, kB, kC, d}));
}

TEST(GidTable, update_gids__empty_rows_at_the_end_go) {
  std::vector<IpAddress> table = {kA, kB, kC};
  update_gids(table, {kA});
  EXPECT_EQ(table, (std::vector<IpAddress>{kA}));
  update_gids(table, {});
  EXPECT_TRUE(table.empty());
}

}  // namespace
}  // namespace roci::dpdk
