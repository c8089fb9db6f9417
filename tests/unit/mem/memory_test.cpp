#include "stack/mem/memory.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace roci {
namespace {

struct KeyTableTest : ::testing::Test {
  Pd pd;
  Pd other_pd;
  std::array<std::byte, 100> memory{};
  Mr mr{{.pd = &pd,
         .base = memory.data(),
         .iova = 0x1000,
         .length = 100,
         .access = kAccessLocalWrite | kAccessRemoteRead}};
  KeyTable table;
};

TEST_F(KeyTableTest, check__range_is_exact) {
  ASSERT_TRUE(table.insert(&mr, 77));
  EXPECT_EQ(table.check_local(mr.key, &pd, 0x1000, 100, 0), memory.data());
  EXPECT_EQ(table.check_local(mr.key, &pd, 0x1063, 1, 0), memory.data() + 99);
  EXPECT_EQ(table.check_local(mr.key, &pd, 0x1064, 1, 0), nullptr);
  EXPECT_EQ(table.check_local(mr.key, &pd, 0xfff, 1, 0), nullptr);
  EXPECT_EQ(table.check_local(mr.key, &pd, 0x1001, 100, 0), nullptr);
  EXPECT_EQ(table.check_local(mr.key, &pd, 0x1001, UINT64_MAX, 0), nullptr);
}

TEST_F(KeyTableTest, check__pd_and_rights_count) {
  ASSERT_TRUE(table.insert(&mr, 77));
  EXPECT_EQ(table.check_local(mr.key, &other_pd, 0x1000, 1, 0), nullptr);
  EXPECT_NE(table.check_local(mr.key, &pd, 0x1000, 1, kAccessRemoteRead), nullptr);
  EXPECT_EQ(table.check_local(mr.key, &pd, 0x1000, 1, kAccessRemoteRead | kAccessRemoteWrite), nullptr);
}

TEST_F(KeyTableTest, find__key_of_a_region_that_is_gone_misses_its_successor) {
  ASSERT_TRUE(table.insert(&mr, 1));
  const std::uint32_t stale = mr.key;
  table.erase(&mr);
  EXPECT_EQ(table.find(stale), nullptr);
  Mr next = mr;
  // The same random bits again: the key must be another one all the same.
  ASSERT_TRUE(table.insert(&next, 1));
  EXPECT_EQ(table.find(stale), nullptr);
  EXPECT_EQ(table.find(next.key), &next);
}

TEST_F(KeyTableTest, insert__key_differs_from_the_last_one_of_its_place_whatever_the_tag) {
  std::uint32_t last = 0;
  for (const std::uint32_t random : {0u, 0u, 0x0200'0000u, UINT32_MAX, UINT32_MAX, 0x0200'0000u, 0u, UINT32_MAX}) {
    ASSERT_TRUE(table.insert(&mr, random));
    EXPECT_EQ(KeyTable::index_of(mr.key), 0u);
    EXPECT_NE(mr.key & ~KeyTable::kTagMask, last & ~KeyTable::kTagMask);
    EXPECT_NE(mr.key & ~KeyTable::kTagMask, 0u);
    last = mr.key;
    table.erase(&mr);
  }
}

TEST_F(KeyTableTest, insert__never_gives_key_zero_and_ends_when_full) {
  ASSERT_TRUE(table.insert(&mr, 0));
  EXPECT_NE(mr.key, 0u);
  std::vector<Mr> many(KeyTable::kMaxKeys - 1, mr);
  for (Mr& region : many) ASSERT_TRUE(table.insert(&region, 5));
  Mr one_too_many = mr;
  EXPECT_FALSE(table.insert(&one_too_many, 5));
}

}  // namespace
}  // namespace roci
