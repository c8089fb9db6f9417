#include "stack/engine/deadlines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace roci {
namespace {

struct Item : DeadlineHook {};

TEST(DeadlineHeap, arm__later_deadline_does_not_move_an_item) {
  DeadlineHeap<Item> heap;
  Item item;
  heap.arm(item, Instant{10});
  heap.arm(item, Instant{20});
  EXPECT_EQ(heap.earliest(), Instant{10});
  heap.arm(item, Instant{5});
  EXPECT_EQ(heap.earliest(), Instant{5});
  EXPECT_EQ(heap.take_due(Instant{4}), nullptr);
  EXPECT_EQ(heap.take_due(Instant{5}), &item);
  EXPECT_EQ(heap.earliest(), kNever);
}

TEST(DeadlineHeap, random_use__takes_in_order_and_forgets_the_removed) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::vector<Item> items(200);
  DeadlineHeap<Item> heap;
  for (int round = 0; round < 50; ++round) {
    for (Item& item : items) heap.arm(item, Instant{static_cast<std::int64_t>(random() % 1000)});
    std::vector<Item*> removed;
    for (int i = 0; i < 50; ++i) {
      removed.push_back(&items[random() % items.size()]);
      heap.remove(*removed.back());
    }
    Instant last{};
    std::size_t taken = 0;
    while (!(heap.earliest() == kNever)) {
      const Instant at = heap.earliest();
      EXPECT_LE(last, at);
      last = at;
      Item* item = heap.take_due(at);
      ASSERT_NE(item, nullptr);
      EXPECT_EQ(std::count(removed.begin(), removed.end(), item), 0);
      ++taken;
    }
    std::sort(removed.begin(), removed.end());
    const auto distinct = std::unique(removed.begin(), removed.end()) - removed.begin();
    EXPECT_EQ(taken, items.size() - static_cast<std::size_t>(distinct));
  }
}

}  // namespace
}  // namespace roci
