// Windows that one worker binds while another looks at them: it sees what they were, or what they are, and no mixture.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "stack/mem/memory.h"

namespace roci {
namespace {

constexpr Qpn kQp{17};
constexpr std::uint64_t kVa = 0x10'0000;
constexpr std::uint64_t kSlice = 64;
constexpr std::uint64_t kSlices = 1000;
constexpr std::uint32_t kBinds = 100'000;

/// Slice n is n + 1 bytes from n * kSlice on: no two are alike, and each byte of a mixture would be another's.
WindowBinding slice_of(std::uint64_t n, std::uint32_t window_key, std::uint32_t region_key) {
  return {.window_key = window_key,
          .region_key = region_key,
          .va = kVa + n * kSlice,
          .length = n % kSlice + 1,
          .access = kAccessRemoteRead};
}

struct SharedWindows : testing::Test {
  SharedWindows() {
    EXPECT_TRUE(table.insert(&mr, 0x1111'1111));
    EXPECT_TRUE(table.insert(&window, 0x2222'2222));
  }

  Pd pd;
  std::vector<std::byte> memory = std::vector<std::byte>(kSlices * kSlice);
  Mr mr{{.pd = &pd, .base = memory.data(), .iova = kVa, .length = memory.size(), .access = kAccessMwBind}};
  Mw window{{.pd = &pd, .kind = KeyKind::kWindow1}};
  KeyTable table;
};

TEST_F(SharedWindows, check_remote__beside_binds_opens_no_range_that_was_never_bound) {
  const std::uint32_t key = window.key;
  std::atomic<bool> over{false};
  std::uint64_t wrong = 0;
  std::thread looker([&] {
    for (std::uint64_t n = 0; !over; n = (n + 1) % kSlices) {
      const std::uint64_t length = n % kSlice + 1;
      const std::byte* found = table.check_remote(key, &pd, kQp, kVa + n * kSlice, length, kAccessRemoteRead);
      if (found == nullptr) continue;
      if (found != memory.data() + n * kSlice) ++wrong;
      // One byte more was never open, whatever the window has become since.
      if (table.check_remote(key, &pd, kQp, kVa + n * kSlice, length + 1, kAccessRemoteRead) != nullptr) ++wrong;
    }
  });
  for (std::uint32_t i = 0; i < kBinds; ++i) EXPECT_TRUE(table.bind(slice_of(i % kSlices, key, mr.key), &pd, kQp));
  over = true;
  looker.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(mr.windows, 1u);
}

/// Of two that bind a window of type 2 at a time one has it.
TEST_F(SharedWindows, bind__a_window_of_type_2_has_one_qp) {
  Mw claimed{{.pd = &pd, .kind = KeyKind::kWindow2}};
  ASSERT_TRUE(table.insert(&claimed, 0x3333'3333));
  const std::uint32_t key = claimed.key;
  std::atomic<int> owners{0};
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (const std::uint32_t qpn : {1u, 2u})
    threads.emplace_back([&, qpn] {
      for (std::uint32_t i = 0; i < kBinds; ++i) {
        if (!table.bind(slice_of(3, key, mr.key), &pd, Qpn{qpn})) continue;
        if (++owners > 1) most = 2;
        --owners;
        EXPECT_TRUE(table.invalidate(key, &pd, Qpn{qpn}));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 0);
  EXPECT_EQ(mr.windows, 0u);
}

}  // namespace
}  // namespace roci
