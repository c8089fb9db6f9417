#include "stack/wire/aeth.h"

#include <gtest/gtest.h>

namespace roci {
namespace {

TEST(Aeth, syndromes__known_answers) {
  EXPECT_EQ(ack_syndrome(0), 0x00);
  EXPECT_EQ(ack_syndrome(30), 0x1e);
  EXPECT_EQ(ack_syndrome(kNoCreditLimit), 0x1f);
  EXPECT_EQ(rnr_nak_syndrome(0), 0x20);
  EXPECT_EQ(rnr_nak_syndrome(25), 0x39);
  EXPECT_EQ(nak_syndrome(NakCode::kPsnSequenceError), 0x60);
  EXPECT_EQ(nak_syndrome(NakCode::kInvalidRequest), 0x61);
  EXPECT_EQ(nak_syndrome(NakCode::kRemoteAccessError), 0x62);
  EXPECT_EQ(nak_syndrome(NakCode::kRemoteOperationalError), 0x63);
  EXPECT_EQ(nak_syndrome(NakCode::kInvalidRdRequest), 0x64);
}

TEST(Aeth, kind_and_value__of_every_syndrome) {
  for (int syndrome = 0; syndrome < 256; ++syndrome) {
    const auto byte = static_cast<std::uint8_t>(syndrome);
    const int kind = syndrome % 128 / 32;  // bit 7 is reserved
    EXPECT_EQ(static_cast<int>(aeth_kind(byte)), kind) << syndrome;
    EXPECT_EQ(aeth_value(byte), syndrome % 32) << syndrome;
  }
  EXPECT_EQ(aeth_kind(0x1f), AethKind::kAck);
  EXPECT_EQ(aeth_kind(0x39), AethKind::kRnrNak);
  EXPECT_EQ(aeth_kind(0x62), AethKind::kNak);
}

// Both tables go on by doubling every second row; what is wrong in one row shows against the row two before.
TEST(Aeth, credits__double_every_second_code) {
  EXPECT_EQ(credits(0), 0u);
  EXPECT_EQ(credits(1), 1u);
  EXPECT_EQ(credits(2), 2u);
  EXPECT_EQ(credits(3), 3u);
  for (std::uint8_t code = 4; code <= 30; ++code) EXPECT_EQ(credits(code), 2 * credits(code - 2)) << int{code};
  EXPECT_EQ(credits(30), 32768u);
  EXPECT_EQ(credits(kNoCreditLimit), UINT32_MAX);
}

TEST(Aeth, credit_code__rounds_down_to_what_a_code_can_say) {
  for (std::uint8_t code = 0; code < 30; ++code) {
    EXPECT_EQ(credit_code(credits(code)), code);
    EXPECT_EQ(credit_code(credits(static_cast<std::uint8_t>(code + 1)) - 1), code);
  }
  EXPECT_EQ(credit_code(32768), 30);
  EXPECT_EQ(credit_code(UINT32_MAX), 30);
}

TEST(Aeth, rnr_timer__doubles_every_second_code_and_starts_with_the_longest) {
  EXPECT_EQ(rnr_timer(0), microseconds(655'360));
  EXPECT_EQ(rnr_timer(1), microseconds(10));
  EXPECT_EQ(rnr_timer(2), microseconds(20));
  EXPECT_EQ(rnr_timer(3), microseconds(30));
  for (std::uint8_t code = 4; code <= 31; ++code) EXPECT_EQ(rnr_timer(code), rnr_timer(code - 2) * 2) << int{code};
  EXPECT_EQ(rnr_timer(31), microseconds(491'520));
}

}  // namespace
}  // namespace roci
