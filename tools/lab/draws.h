// Draws from distributions in arithmetic that is the same on every machine: no function of libm.
#pragma once

#include <bit>
#include <cstdint>

#include "stack/base/random.h"

namespace roci::lab {

/// Natural logarithm of a number in (0, 1]: x = m * 2^e with m in [1, 2), ln m by the series of the area tangent.
inline double ln_of_part(double x) {
  constexpr double kLn2 = 0.69314718055994530942;
  constexpr int kTerms = 15;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto exponent = static_cast<int>(bits >> 52) - 1023;
  const auto mantissa = std::bit_cast<double>((bits & 0x000f'ffff'ffff'ffff) | 0x3ff0'0000'0000'0000);
  const double z = (mantissa - 1) / (mantissa + 1);
  const double square = z * z;
  double sum = 0;
  for (int term = kTerms; term >= 0; --term) sum = sum * square + 1.0 / (2 * term + 1);
  return 2 * z * sum + exponent * kLn2;
}

/// Uniform in (0, 1].
inline double draw_part(Random& random) { return (static_cast<double>(random.next() >> 11) + 1) * 0x1p-53; }

/// Exponential with mean 1.
inline double draw_exponential(Random& random) { return -ln_of_part(draw_part(random)); }

}  // namespace roci::lab
