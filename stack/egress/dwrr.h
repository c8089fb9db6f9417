// Which traffic class sends next: strict classes first, the highest number first; the others share what is left by
// weight, by deficit round robin (IEEE 802.1Qaz; Shreedhar and Varghese, 1995).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace roci::egress {

/// Knows nothing of frames: told what was sent, a class may overdraw by its last frame. Owner: one thread.
class Dwrr {
 public:
  static constexpr unsigned kClasses = 8;

  /// `percent[n]`: the share of class n in what the strict classes leave; 0 makes it strict. The smallest share gets a
  /// quantum of `min_quantum_bytes`, at least a frame.
  void configure(std::span<const std::uint8_t, kClasses> percent, std::uint32_t min_quantum_bytes) {
    std::uint32_t least = 100;
    for (std::uint8_t share : percent)
      if (share != 0) least = std::min<std::uint32_t>(least, share);
    strict_ = 0;
    for (unsigned n = 0; n < kClasses; ++n) {
      if (percent[n] == 0) strict_ = static_cast<std::uint8_t>(strict_ | 1u << n);
      quantum_bytes_[n] = static_cast<std::int32_t>(percent[n] * min_quantum_bytes / least);
    }
    deficit_bytes_ = {};
  }

  /// Bit n of `backlogged`: class n has something to send; of `eligible`, not 0: and it is not paused. A paused class
  /// keeps what it has saved, an empty one loses it.
  unsigned pick(std::uint8_t eligible, std::uint8_t backlogged) {
    if (const auto strict = static_cast<std::uint8_t>(eligible & strict_); strict != 0)
      return static_cast<unsigned>(std::bit_width(strict)) - 1;
    while (!has_bit(eligible, current_) || deficit_bytes_[current_] <= 0) {
      if (!has_bit(backlogged, current_)) deficit_bytes_[current_] = std::min(deficit_bytes_[current_], 0);
      current_ = (current_ + 1) % kClasses;
      if (has_bit(eligible, current_)) deficit_bytes_[current_] += quantum_bytes_[current_];
    }
    return current_;
  }

  /// What the class that pick() chose has sent.
  void on_sent(unsigned traffic_class, std::uint32_t wire_bytes) {
    deficit_bytes_[traffic_class] -= static_cast<std::int32_t>(wire_bytes);
  }

 private:
  static bool has_bit(std::uint8_t mask, unsigned n) { return (mask >> n & 1) != 0; }

  std::uint8_t strict_ = 0xff;
  unsigned current_ = 0;
  std::array<std::int32_t, kClasses> quantum_bytes_{};
  std::array<std::int32_t, kClasses> deficit_bytes_{};
};

}  // namespace roci::egress
