#include "stack/base/units.h"

#include <gtest/gtest.h>

#include <random>

namespace roci {
namespace {

TEST(Units, parse_time__is_exact) {
  EXPECT_EQ(parse_time("1.5us").value, picoseconds(1'500'000));
  EXPECT_EQ(parse_time("300us").value, microseconds(300));
  EXPECT_EQ(parse_time("5.12ns").value, picoseconds(5120));
  EXPECT_EQ(parse_time("0.1s").value, milliseconds(100));
  EXPECT_EQ(parse_time("1e-3s").value, milliseconds(1));
  EXPECT_EQ(parse_time("0ns").value, Duration{});
  // 4.35 is no double: 4.35 * 10^9 in doubles is one too few when cut off.
  EXPECT_EQ(parse_time("4.35ms").value, picoseconds(4'350'000'000));
  EXPECT_EQ(parse_time("9223372.036854775807s").wrong,
            "\"9223372.036854775807s\" is not a number with a unit "
            "(us, ns, ms, s), such as 1us");
}

TEST(Units, parse_rate_bps__is_exact) {
  EXPECT_EQ(parse_rate_bps("100Gbps").value, 100'000'000'000u);
  EXPECT_EQ(parse_rate_bps("2.5Gbps").value, 2'500'000'000u);
  EXPECT_EQ(parse_rate_bps("40Mbps").value, 40'000'000u);
  EXPECT_EQ(parse_rate_bps("9.6Kbps").value, 9600u);
  EXPECT_EQ(parse_rate_bps("7bps").value, 7u);
}

TEST(Units, parse_size_bytes__powers_of_1000_and_of_1024) {
  EXPECT_EQ(parse_size_bytes("5KB").value, 5000u);
  EXPECT_EQ(parse_size_bytes("32MB").value, 32'000'000u);
  EXPECT_EQ(parse_size_bytes("64KiB").value, 65'536u);
  EXPECT_EQ(parse_size_bytes("1.5MiB").value, 1'572'864u);
  EXPECT_EQ(parse_size_bytes("7B").value, 7u);
}

TEST(Units, parse_fraction__plain_percent_and_ratio) {
  EXPECT_EQ(parse_fraction("1%").value, 0.01);
  EXPECT_EQ(parse_fraction("0.01").value, 0.01);
  EXPECT_EQ(parse_fraction("1e-6").value, 1e-6);
  EXPECT_EQ(parse_fraction("12.5%").value, 0.125);
  EXPECT_EQ(parse_fraction("1/256").value, 0.00390625);
  EXPECT_EQ(parse_fraction("1").value, 1.0);
  for (const char* text : {"", "%", "101%", "1.5", "1/0", "1/", "/2", "3/2", "-1", "1 %", "nan", "inf", "1e400"})
    EXPECT_FALSE(parse_fraction(text)) << text;
}

TEST(Units, parse_count__whole_numbers_only) {
  EXPECT_EQ(parse_count("0").value, 0u);
  EXPECT_EQ(parse_count("123456").value, 123'456u);
  for (const char* text : {"", "1.0", "1e3", "-1", "+1", "0x10", "5KB", " 5", "99999999999999999999"})
    EXPECT_FALSE(parse_count(text)) << text;
}

TEST(Units, parse__a_bare_number_is_told_the_units) {
  EXPECT_EQ(parse_time("300").wrong, "\"300\" has no unit: us, ns, ms, s, as in 300us");
  EXPECT_EQ(parse_rate_bps("10").wrong, "\"10\" has no unit: Gbps, Mbps, Kbps, bps, as in 10Gbps");
  EXPECT_EQ(parse_size_bytes("0").wrong, "\"0\" has no unit: KB, B, MB, KiB, MiB, as in 0KB");
}

TEST(Units, parse__an_unknown_unit_is_told_the_nearest) {
  EXPECT_EQ(parse_rate_bps("10gbps").wrong,
            "\"10gbps\": no unit is called \"gbps\", nearest: \"Gbps\"; there are Gbps, Mbps, Kbps, bps");
  EXPECT_EQ(parse_time("3 hours").wrong, "\"3 hours\": no unit is called \" hours\"; there are us, ns, ms, s");
}

TEST(Units, parse__what_has_no_exact_value_is_refused) {
  EXPECT_EQ(parse_time("0.0001ns").wrong, "\"0.0001ns\" is finer than a picosecond");
  EXPECT_EQ(parse_size_bytes("1.5B").wrong, "\"1.5B\" is finer than a byte");
  EXPECT_EQ(parse_rate_bps("0.5bps").wrong, "\"0.5bps\" is finer than a bit a second");
  EXPECT_EQ(parse_time("10000000s").wrong, "\"10000000s\" is too large");
  for (const char* text : {"", "us", "-1us", "+1us", "1.2.3us", ".us", "1e99us", "0x10us", "12345678901234567890us"})
    EXPECT_FALSE(parse_time(text)) << text;
}

TEST(Units, text__in_the_largest_unit_that_fits) {
  EXPECT_EQ(time_text(picoseconds(1'500'000)), "1.5us");
  EXPECT_EQ(time_text(picoseconds(5120)), "5.12ns");
  EXPECT_EQ(time_text(picoseconds(500)), "0.5ns");
  EXPECT_EQ(time_text(seconds(1000)), "1000s");
  EXPECT_EQ(rate_text(2'500'000'000), "2.5Gbps");
  EXPECT_EQ(rate_text(0), "0bps");
  EXPECT_EQ(size_text(10'000'000), "10MB");
  EXPECT_EQ(size_text(65'536), "65.536KB");
}

TEST(Units, text__reads_back_as_itself) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t value = random() % 100'000'000'000'000'000 >> (random() % 56);
    ASSERT_EQ(parse_rate_bps(rate_text(value)).value, value) << rate_text(value);
    ASSERT_EQ(parse_size_bytes(size_text(value)).value, value) << size_text(value);
    const Duration time{static_cast<std::int64_t>(value)};
    ASSERT_EQ(parse_time(time_text(time)).value, time) << time_text(time);
  }
}

}  // namespace
}  // namespace roci
