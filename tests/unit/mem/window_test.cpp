// What a memory window opens, to whom, and which binds and invalidations are allowed (IBTA 10.6.7.2).
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "stack/mem/memory.h"

namespace roci {
namespace {

constexpr Qpn kQp{17};
constexpr Qpn kOtherQp{18};
constexpr std::uint64_t kVa = 0x10'0000;
constexpr std::uint32_t kBytes = 1000;
constexpr std::uint32_t kAllRemote = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;

/// The next tag, as ibv_inc_rkey() makes it.
std::uint32_t next_tag(std::uint32_t key) { return (key & ~0xffu) | ((key + 1) & 0xff); }

struct Window : ::testing::Test {
  Window() {
    EXPECT_TRUE(table.insert(&mr, 0x1111'1111));
    EXPECT_TRUE(table.insert(&type_1, 0x2222'2222));
    EXPECT_TRUE(table.insert(&type_2, 0x3333'3333));
  }

  /// A bind of [kVa + 100, kVa + 300) for reading.
  WindowBinding binding(const Mw& window) const {
    return {.window_key = next_tag(window.key),
            .region_key = mr.key,
            .va = kVa + 100,
            .length = 200,
            .access = kAccessRemoteRead};
  }
  std::byte* reach(const Mw& window, std::uint64_t va, std::uint64_t bytes, std::uint32_t access = kAccessRemoteRead) {
    return table.check_remote(window.key, &pd, kQp, va, bytes, access);
  }

  Pd pd;
  Pd other_pd;
  std::array<std::byte, kBytes> memory{};
  Mr mr{{.pd = &pd, .base = memory.data(), .iova = kVa, .length = kBytes, .access = kAccessLocalWrite | kAccessMwBind}};
  Mw type_1{{.pd = &pd, .kind = KeyKind::kWindow1}};
  Mw type_2{{.pd = &pd, .kind = KeyKind::kWindow2}};
  KeyTable table;
};

TEST_F(Window, bind__opens_its_part_of_the_region_and_no_more) {
  for (Mw* window : {&type_1, &type_2}) {
    ASSERT_TRUE(table.bind(binding(*window), &pd, kQp));
    EXPECT_EQ(reach(*window, kVa + 100, 200), memory.data() + 100);
    EXPECT_EQ(reach(*window, kVa + 299, 1), memory.data() + 299);
    EXPECT_EQ(reach(*window, kVa + 299, 2), nullptr);
    EXPECT_EQ(reach(*window, kVa + 99, 1), nullptr);
    EXPECT_EQ(reach(*window, kVa + 100, 1, kAccessRemoteWrite), nullptr);
  }
  EXPECT_EQ(mr.windows, 2u);
}

/// Rights over a region that gives its peers none itself.
TEST_F(Window, bind__rights_are_the_windows_own) {
  WindowBinding wanted = binding(type_2);
  wanted.access = kAllRemote;
  ASSERT_TRUE(table.bind(wanted, &pd, kQp));
  EXPECT_NE(reach(type_2, kVa + 100, 8, kAccessRemoteWrite), nullptr);
  EXPECT_NE(reach(type_2, kVa + 100, 8, kAccessRemoteAtomic), nullptr);
  EXPECT_EQ(table.check_remote(mr.key, &pd, kQp, kVa + 100, 8, kAccessRemoteRead), nullptr);
}

TEST_F(Window, bind__zero_based_counts_from_the_windows_start) {
  WindowBinding wanted = binding(type_2);
  wanted.access |= kAccessZeroBased;
  ASSERT_TRUE(table.bind(wanted, &pd, kQp));
  EXPECT_EQ(reach(type_2, 0, 200), memory.data() + 100);
  EXPECT_EQ(reach(type_2, 0, 201), nullptr);
  EXPECT_EQ(reach(type_2, kVa + 100, 1), nullptr);
}

TEST_F(Window, key__is_no_l_key) {
  ASSERT_TRUE(table.bind(binding(type_1), &pd, kQp));
  EXPECT_EQ(table.check_local(type_1.key, &pd, kVa + 100, 1, 0), nullptr);
}

TEST_F(Window, key__the_tag_is_the_owners_and_old_tags_are_refused) {
  const std::uint32_t first = type_1.key;
  ASSERT_TRUE(table.bind(binding(type_1), &pd, kQp));
  const std::uint32_t second = type_1.key;
  EXPECT_EQ(second, next_tag(first));
  ASSERT_TRUE(table.bind(binding(type_1), &pd, kQp));
  EXPECT_EQ(table.check_remote(first, &pd, kQp, kVa + 100, 1, kAccessRemoteRead), nullptr);
  EXPECT_EQ(table.check_remote(second, &pd, kQp, kVa + 100, 1, kAccessRemoteRead), nullptr);
  EXPECT_NE(reach(type_1, kVa + 100, 1), nullptr);
  EXPECT_EQ(mr.windows, 1u);
}

TEST_F(Window, type_1__serves_every_qp_of_its_domain) {
  ASSERT_TRUE(table.bind(binding(type_1), &pd, kQp));
  EXPECT_NE(table.check_remote(type_1.key, &pd, kOtherQp, kVa + 100, 1, kAccessRemoteRead), nullptr);
  EXPECT_EQ(table.check_remote(type_1.key, &other_pd, kQp, kVa + 100, 1, kAccessRemoteRead), nullptr);
}

TEST_F(Window, type_2__serves_the_qp_that_it_was_bound_through) {
  ASSERT_TRUE(table.bind(binding(type_2), &pd, kQp));
  EXPECT_EQ(table.check_remote(type_2.key, &pd, kOtherQp, kVa + 100, 1, kAccessRemoteRead), nullptr);
  EXPECT_EQ(table.check_remote(type_2.key, &other_pd, kQp, kVa + 100, 1, kAccessRemoteRead), nullptr);
}

TEST_F(Window, type_1__no_bytes_unbind_it) {
  ASSERT_TRUE(table.bind(binding(type_1), &pd, kQp));
  const std::uint32_t bound = type_1.key;
  EXPECT_TRUE(table.bind({.window_key = next_tag(bound)}, &pd, kQp));
  EXPECT_EQ(table.check_remote(bound, &pd, kQp, kVa + 100, 1, kAccessRemoteRead), nullptr);
  EXPECT_EQ(reach(type_1, kVa + 100, 1), nullptr);
  EXPECT_EQ(mr.windows, 0u);
}

struct Forbidden {
  const char* what;
  std::function<void(Window&, WindowBinding&)> spoil;
};

TEST_F(Window, bind__each_rule_broken_in_turn_changes_nothing) {
  const std::array forbidden{
      Forbidden{"another window's key", [](auto&, auto& wanted) { wanted.window_key ^= 0x0200'0000; }},
      Forbidden{"a region's key for the window", [](auto& t, auto& wanted) { wanted.window_key = t.mr.key; }},
      Forbidden{"no such region", [](auto&, auto& wanted) { wanted.region_key ^= 1; }},
      Forbidden{"a window for the region", [](auto& t, auto& wanted) { wanted.region_key = t.type_2.key; }},
      Forbidden{"window of another domain", [](auto& t, auto&) { t.type_1.pd = t.type_2.pd = &t.other_pd; }},
      Forbidden{"region of another domain", [](auto& t, auto&) { t.mr.pd = &t.other_pd; }},
      Forbidden{"region not for windows", [](auto& t, auto&) { t.mr.access = kAccessLocalWrite; }},
      Forbidden{"zero-based region", [](auto& t, auto&) { t.mr.access |= kAccessZeroBased; }},
      Forbidden{"writable, the region is not",
                [](auto& t, auto& wanted) {
                  t.mr.access = kAccessMwBind;
                  wanted.access = kAccessRemoteWrite;
                }},
      Forbidden{"atomic, the region is not writable",
                [](auto& t, auto& wanted) {
                  t.mr.access = kAccessMwBind;
                  wanted.access = kAccessRemoteAtomic;
                }},
      Forbidden{"before the region", [](auto&, auto& wanted) { wanted.va = kVa - 1; }},
      Forbidden{"past the region", [](auto&, auto& wanted) { wanted.va = kVa + kBytes - 199; }},
      Forbidden{"longer than all", [](auto&, auto& wanted) { wanted.length = UINT64_MAX; }},
  };
  const Mr sound = mr;
  for (const Forbidden& row : forbidden) {
    for (Mw* window : {&type_1, &type_2}) {
      WindowBinding wanted = binding(*window);
      const std::uint32_t key = window->key;
      row.spoil(*this, wanted);
      EXPECT_FALSE(table.bind(wanted, &pd, kQp)) << row.what;
      EXPECT_EQ(window->key, key) << row.what;
      EXPECT_EQ(window->mr, nullptr) << row.what;
      mr = sound;
      type_1.pd = type_2.pd = &pd;
    }
  }
  EXPECT_TRUE(table.bind(binding(type_2), &pd, kQp));
}

TEST_F(Window, bind__what_only_one_type_may) {
  WindowBinding zero_based = binding(type_1);
  zero_based.access |= kAccessZeroBased;
  EXPECT_FALSE(table.bind(zero_based, &pd, kQp));
  EXPECT_FALSE(table.bind({.window_key = type_2.key, .region_key = mr.key, .va = kVa}, &pd, kQp));
  ASSERT_TRUE(table.bind(binding(type_2), &pd, kQp));
  const std::uint32_t key = type_2.key;
  EXPECT_FALSE(table.bind(binding(type_2), &pd, kQp)) << "one of type 2 has to be invalidated first";
  EXPECT_EQ(type_2.key, key);
  EXPECT_NE(reach(type_2, kVa + 100, 1), nullptr);
}

TEST_F(Window, invalidate__closes_one_of_type_2_at_once) {
  EXPECT_FALSE(table.invalidate(type_2.key, &pd, kQp)) << "not bound yet";
  ASSERT_TRUE(table.bind(binding(type_2), &pd, kQp));
  EXPECT_TRUE(table.invalidate(type_2.key, &pd, kQp));
  EXPECT_EQ(reach(type_2, kVa + 100, 1), nullptr);
  EXPECT_EQ(mr.windows, 0u);
  EXPECT_FALSE(table.invalidate(type_2.key, &pd, kQp)) << "twice";
  EXPECT_TRUE(table.bind(binding(type_2), &pd, kQp)) << "bound again";
}

TEST_F(Window, invalidate__is_refused_to_others_and_of_other_keys) {
  ASSERT_TRUE(table.bind(binding(type_1), &pd, kQp));
  ASSERT_TRUE(table.bind(binding(type_2), &pd, kQp));
  EXPECT_FALSE(table.invalidate(type_1.key, &pd, kQp));
  EXPECT_FALSE(table.invalidate(mr.key, &pd, kQp));
  EXPECT_FALSE(table.invalidate(type_2.key ^ 1, &pd, kQp));
  EXPECT_FALSE(table.invalidate(type_2.key, &pd, kOtherQp));
  EXPECT_FALSE(table.invalidate(type_2.key, &other_pd, kQp));
  EXPECT_NE(reach(type_2, kVa + 100, 1), nullptr);
}

TEST_F(Window, unbind_all__takes_those_of_one_qp) {
  Mw another{{.pd = &pd, .kind = KeyKind::kWindow2}};
  ASSERT_TRUE(table.insert(&another, 4));
  ASSERT_TRUE(table.bind(binding(type_1), &pd, kQp));
  ASSERT_TRUE(table.bind(binding(type_2), &pd, kQp));
  ASSERT_TRUE(table.bind(binding(another), &pd, kOtherQp));
  table.unbind_all(kQp);
  EXPECT_EQ(type_2.mr, nullptr);
  EXPECT_EQ(type_1.mr, &mr);
  EXPECT_EQ(another.mr, &mr);
  EXPECT_EQ(mr.windows, 2u);
}

}  // namespace
}  // namespace roci
