#include "stack/base/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace roci {
namespace {

// The first outputs of xoshiro256** from the state 1, 2, 3, 4, as its authors' reference code gives them.
TEST(Random, next__follows_the_published_sequence) {
  Random random(std::array<std::uint64_t, 4>{1, 2, 3, 4});
  for (std::uint64_t expected :
       {std::uint64_t{11520}, std::uint64_t{0}, std::uint64_t{1509978240}, std::uint64_t{1215971899390074240},
        std::uint64_t{1216172134540287360}, std::uint64_t{607988272756665600}, std::uint64_t{16172922978634559625u},
        std::uint64_t{8476171486693032832}, std::uint64_t{10595114339597558777u}, std::uint64_t{2904607092377533576}})
    EXPECT_EQ(random.next(), expected);
}

TEST(Random, seed_and_stream__give_their_own_sequences) {
  std::vector<std::uint64_t> firsts;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (std::uint64_t stream = 0; stream < 4; ++stream) firsts.push_back(Random(seed, stream).next());
  for (std::size_t i = 0; i < firsts.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(firsts[i], firsts[j]) << i << " and " << j;
  EXPECT_EQ(Random(3, 2).next(), Random(3, 2).next());
}

TEST(Random, below__stays_below_and_reaches_every_value) {
  Random random(1);
  std::vector<int> seen(10);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = random.below(10);
    ASSERT_LT(value, 10u);
    ++seen[value];
  }
  for (int count : seen) EXPECT_GT(count, 50);
  EXPECT_EQ(random.below(0), 0u);
  EXPECT_EQ(random.below(1), 0u);
}

TEST(Random, between__includes_both_ends) {
  Random random(2);
  std::vector<int> seen(3);
  for (int i = 0; i < 100; ++i) ++seen.at(random.between(5, 7) - 5);
  for (int count : seen) EXPECT_GT(count, 0);
}

TEST(Random, chance__never_always_and_about_a_fifth) {
  Random random(3);
  int fifth = 0;
  for (int i = 0; i < 10000; ++i) {
    EXPECT_FALSE(random.chance(0));
    EXPECT_TRUE(random.chance(1));
    if (random.chance(0.2)) ++fifth;
  }
  EXPECT_NEAR(fifth, 2000, 200);
}

}  // namespace
}  // namespace roci
