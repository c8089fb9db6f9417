// A random generator whose algorithm is fixed here, so that a seed means the same draws on every machine and compiler:
// xoshiro256** (Blackman and Vigna 2018), its state filled by SplitMix64. For simulation and faults; never for keys on
// a live port.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace roci {

class Random {
 public:
  /// Generators of one seed with different streams are independent: what one draws does not move another.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) {
    std::uint64_t position = split_mix(seed) ^ (stream * 0x9e37'79b9'7f4a'7c15);
    for (std::uint64_t& word : state_) word = split_mix(position += 0x9e37'79b9'7f4a'7c15);
  }

  /// From the generator's own state, not all zero.
  explicit Random(const std::array<std::uint64_t, 4>& state) : state_(state) {}

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, bound); 0 for a bound of 0. The bias is at most bound / 2^64.
  std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((Wide{next()} * bound) >> 64);
  }

  /// Uniform in [low, high], both included.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }

  /// True with `probability`, in 0..1. Always draws, so that a probability does not shift later draws.
  bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1p-53 < probability; }

 private:
  static constexpr std::uint64_t split_mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
    return z ^ (z >> 31);
  }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace roci
