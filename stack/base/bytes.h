// Byte order lives here and nowhere else: wire integers are big-endian.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace roci {

/// Reads a big-endian T from `p`, which need not be aligned.
template <std::unsigned_integral T>
inline T load_be(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(v);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(v);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(v);
  return v;
}

/// Writes `v` big-endian to `p`, which need not be aligned.
template <std::unsigned_integral T>
inline void store_be(std::byte* p, T v) {
  if constexpr (sizeof(T) == 2) v = __builtin_bswap16(v);
  if constexpr (sizeof(T) == 4) v = __builtin_bswap32(v);
  if constexpr (sizeof(T) == 8) v = __builtin_bswap64(v);
  std::memcpy(p, &v, sizeof v);
}

/// The 24-bit fields of BTH, AETH and DETH.
inline std::uint32_t load_be24(const std::byte* p) {
  return std::to_integer<std::uint32_t>(p[0]) << 16 | std::to_integer<std::uint32_t>(p[1]) << 8 |
         std::to_integer<std::uint32_t>(p[2]);
}

inline void store_be24(std::byte* p, std::uint32_t v) {
  p[0] = static_cast<std::byte>(v >> 16);
  p[1] = static_cast<std::byte>(v >> 8);
  p[2] = static_cast<std::byte>(v);
}

static_assert(std::endian::native == std::endian::little);

}  // namespace roci
