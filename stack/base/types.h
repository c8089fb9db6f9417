// Strong types shared by every room: numbers of the protocol and points in time.
#pragma once

#include <compare>
#include <cstdint>

namespace roci {

/// A length of time in picoseconds (a pause quantum at 100 Gb/s is 5.12 ns).
struct Duration {
  std::int64_t ps = 0;

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration o) const { return {ps + o.ps}; }
  constexpr Duration operator-(Duration o) const { return {ps - o.ps}; }
  constexpr Duration operator*(std::int64_t n) const { return {ps * n}; }
  constexpr std::int64_t ns() const { return ps / 1000; }
};

constexpr Duration picoseconds(std::int64_t n) { return {n}; }
constexpr Duration nanoseconds(std::int64_t n) { return {n * 1000}; }
constexpr Duration microseconds(std::int64_t n) { return {n * 1'000'000}; }
constexpr Duration milliseconds(std::int64_t n) { return {n * 1'000'000'000}; }
constexpr Duration seconds(std::int64_t n) { return {n * 1'000'000'000'000}; }

/// A point on the clock that the driver passes in as `now`; the origin is the driver's.
struct Instant {
  std::int64_t ps = 0;

  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const { return {ps + d.ps}; }
  constexpr Instant operator-(Duration d) const { return {ps - d.ps}; }
  constexpr Duration operator-(Instant o) const { return {ps - o.ps}; }
  constexpr std::int64_t ns() const { return ps / 1000; }
};

/// A deadline that never comes.
inline constexpr Instant kNever{INT64_MAX};

/// Packet sequence number: 24 bits that wrap. Distance is the only order (IBTA 9.7.1).
class Psn {
 public:
  static constexpr std::uint32_t kMask = 0xff'ffff;

  constexpr Psn() = default;
  constexpr explicit Psn(std::uint32_t value) : value_(value & kMask) {}

  constexpr std::uint32_t value() const { return value_; }
  constexpr bool operator==(const Psn&) const = default;
  constexpr Psn operator+(std::uint32_t n) const { return Psn(value_ + n); }
  constexpr Psn operator-(std::uint32_t n) const { return Psn(value_ - n); }

  /// Signed distance from `from` to this: positive when this is later, in [-2^23, 2^23).
  constexpr std::int32_t distance_from(Psn from) const {
    return static_cast<std::int32_t>((value_ - from.value_) << 8) >> 8;
  }
  constexpr bool before(Psn other) const { return distance_from(other) < 0; }
  constexpr bool after(Psn other) const { return distance_from(other) > 0; }

 private:
  std::uint32_t value_ = 0;
};

/// Queue pair number, 24 bits.
struct Qpn {
  static constexpr std::uint32_t kMask = 0xff'ffff;
  std::uint32_t value = 0;
  constexpr auto operator<=>(const Qpn&) const = default;
};

/// Destination of a packet to a multicast group (IBTA 10.5.2).
inline constexpr Qpn kMulticastQpn{0xff'ffff};

/// Local key of a memory region (IBTA 10.6.3).
struct LKey {
  std::uint32_t value = 0;
  constexpr bool operator==(const LKey&) const = default;
};

/// Remote key of a memory region (IBTA 10.6.3).
struct RKey {
  std::uint32_t value = 0;
  constexpr bool operator==(const RKey&) const = default;
};

}  // namespace roci
