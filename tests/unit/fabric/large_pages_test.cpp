#include "drivers/fabric/large_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace roci::fabric {
namespace {

TEST(LargePages, bytes__are_zeros_from_the_start_of_a_huge_page_on) {
  constexpr std::size_t kBytes = 5'000'001;
  LargePages pages(kBytes);
  ASSERT_EQ(pages.bytes().size(), kBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.bytes().data()) % (2 << 20), 0u);
  EXPECT_TRUE(std::ranges::all_of(pages.bytes(), [](std::byte byte) { return byte == std::byte{0}; }));
  pages.bytes().back() = std::byte{7};
  const LargePages moved(std::move(pages));
  EXPECT_EQ(moved.bytes().back(), std::byte{7});
}

}  // namespace
}  // namespace roci::fabric
