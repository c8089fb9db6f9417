#include "stack/engine/qp_table.h"

#include <gtest/gtest.h>

#include <set>

namespace roci {
namespace {

Qp* marker(std::uintptr_t n) { return reinterpret_cast<Qp*>(n * 64); }

TEST(QpTable, pick__stays_in_the_block_and_avoids_special_and_used_qpns) {
  QpTable table(5);
  std::set<std::uint32_t> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Qpn qpn = table.pick(7);
    EXPECT_EQ(qpn.value >> QpTable::kIndexBits, 5u);
    EXPECT_GE(qpn.value & (QpTable::kIndexCount - 1), QpTable::kFirstIndex);
    EXPECT_TRUE(seen.insert(qpn.value).second);
    table.insert(qpn, marker(i + 1));
  }
  EXPECT_EQ(table.size(), 1000u);
}

TEST(QpTable, pick__wraps_past_the_end) {
  QpTable table(63);
  // QPN 0xffffff stands for a multicast group (IBTA 10.5.2): the one before it is the last.
  const std::uint64_t last = QpTable::kIndexCount - QpTable::kFirstIndex - 2;
  const Qpn qpn = table.pick(last);
  EXPECT_EQ(qpn, Qpn{0xff'fffe});
  table.insert(qpn, marker(1));
  EXPECT_EQ(table.pick(last).value & (QpTable::kIndexCount - 1), QpTable::kFirstIndex);
}

TEST(QpTable, find__foreign_block_and_unused_qpns_miss) {
  QpTable table(1);
  const Qpn qpn = table.pick(100);
  table.insert(qpn, marker(9));
  EXPECT_EQ(table.find(qpn), marker(9));
  EXPECT_EQ(table.find(Qpn{qpn.value + 1}), nullptr);
  EXPECT_EQ(table.find(Qpn{qpn.value ^ (1u << 20)}), nullptr);
  table.erase(qpn);
  EXPECT_EQ(table.find(qpn), nullptr);
}

}  // namespace
}  // namespace roci
