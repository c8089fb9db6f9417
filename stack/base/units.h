// Quantities as people write them, with their units: "100Gbps", "64KiB", "1.5us", "1%". All arithmetic is in whole
// numbers, so that "1.5us" is 1,500,000 ps and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stack/base/types.h"

namespace roci {

/// A value, or in words what is wrong with the text that it was to be read from.
template <class T>
struct Parsed {
  T value{};
  std::string wrong;  ///< empty if nothing is

  explicit operator bool() const { return wrong.empty(); }
};

/// Units ns, us, ms, s; whole picoseconds, and not negative. A number without a unit is refused, here and below.
Parsed<Duration> parse_time(std::string_view text);
/// Units bps, Kbps, Mbps, Gbps (powers of 1000); whole bits a second.
Parsed<std::uint64_t> parse_rate_bps(std::string_view text);
/// Units B, KB, MB (powers of 1000), KiB, MiB (powers of 1024); whole bytes.
Parsed<std::uint64_t> parse_size_bytes(std::string_view text);
/// A whole number, which has no unit.
Parsed<std::uint64_t> parse_count(std::string_view text);
/// 0 to 1, written as 0.01, 1% or 1/100.
Parsed<double> parse_fraction(std::string_view text);

/// The same back again, exactly: in the largest unit of which there is one or more.
std::string time_text(Duration time);
std::string rate_text(std::uint64_t rate_bps);
std::string size_text(std::uint64_t bytes);

}  // namespace roci
