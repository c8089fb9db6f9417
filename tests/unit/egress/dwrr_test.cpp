#include "stack/egress/dwrr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

namespace roci::egress {
namespace {

using Shares = std::array<std::uint8_t, Dwrr::kClasses>;

Dwrr make(const Shares& percent, std::uint32_t min_quantum_bytes = 1000) {
  Dwrr classes;
  classes.configure(percent, min_quantum_bytes);
  return classes;
}

/// The classes of the next `count` frames, of `frame_bytes` each.
std::string picks(Dwrr& classes, int count, std::uint8_t eligible, std::uint8_t backlogged,
                  std::uint32_t frame_bytes = 1000) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    const unsigned n = classes.pick(eligible, backlogged);
    classes.on_sent(n, frame_bytes);
    out += std::to_string(n);
  }
  return out;
}

TEST(Dwrr, strict_classes__the_highest_number_first) {
  Dwrr classes = make({});
  EXPECT_EQ(picks(classes, 3, 0b1010'0001, 0b1010'0001), "777");
  EXPECT_EQ(picks(classes, 3, 0b0010'0001, 0b1010'0001), "555");
  EXPECT_EQ(picks(classes, 2, 0b0000'0001, 0b0000'0001), "00");
}

TEST(Dwrr, strict_goes_before_shares) {
  Dwrr classes = make({50, 50, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(picks(classes, 2, 0b100, 0b111), "22");
  EXPECT_EQ(picks(classes, 2, 0b111, 0b111), "22");
}

TEST(Dwrr, shares_75_to_25__three_frames_of_one_for_one_of_the_other) {
  // The smallest share, 25, gets a quantum of 1000 bytes, a frame; 75 gets 3000.
  Dwrr classes = make({25, 0, 0, 75, 0, 0, 0, 0});
  EXPECT_EQ(picks(classes, 8, 0b1001, 0b1001), "33303330");
}

TEST(Dwrr, frames_that_do_not_fit_the_quantum__are_paid_back) {
  // Quanta of 1000 bytes each; class 0 sends 1500 at a time and class 1 500: of each 3000 bytes both get the same.
  Dwrr classes = make({50, 50, 0, 0, 0, 0, 0, 0});
  std::array<std::uint64_t, 2> bytes{};
  for (int i = 0; i < 4000; ++i) {
    const unsigned n = classes.pick(0b11, 0b11);
    const std::uint32_t size = n == 0 ? 1500 : 500;
    classes.on_sent(n, size);
    bytes[n] += size;
  }
  EXPECT_NEAR(static_cast<double>(bytes[0]), static_cast<double>(bytes[1]), 2 * 1500);
}

TEST(Dwrr, work_conserving__a_class_alone_gets_all) {
  Dwrr classes = make({1, 99, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(picks(classes, 5, 0b01, 0b01), "00000");
}

TEST(Dwrr, an_empty_class_saves_nothing) {
  Dwrr classes = make({50, 50, 0, 0, 0, 0, 0, 0});
  picks(classes, 100, 0b01, 0b01);
  // Class 1 comes back and gets its share, not what it did not use before.
  const std::string both = picks(classes, 100, 0b11, 0b11);
  EXPECT_NEAR(static_cast<double>(std::count(both.begin(), both.end(), '1')), 50, 1);
}

TEST(Dwrr, a_paused_class_keeps_what_it_had_saved) {
  // Class 1 has 3000 bytes a round. It sends one frame, then it is paused: 2000 are left to it.
  Dwrr classes = make({25, 75, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(picks(classes, 1, 0b10, 0b11), "1");
  EXPECT_EQ(picks(classes, 2, 0b01, 0b11), "00");
  // On its return it has those 2000 and a round's 3000: five frames before class 0 is next.
  EXPECT_EQ(picks(classes, 6, 0b11, 0b11), "111110");
}

}  // namespace
}  // namespace roci::egress
