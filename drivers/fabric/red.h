// Marking by queue length: RED on the instantaneous length, as DCQCN's congestion point has it (Zhu et al., 2015).
#pragma once

#include <cstdint>

#include "stack/base/random.h"

namespace roci::fabric {

/// kmin = kmax with pmax = 1 is the step of DCTCP.
struct RedConfig {
  std::uint32_t kmin_bytes = 5'000;
  std::uint32_t kmax_bytes = 200'000;
  double pmax = 0.01;
  std::uint8_t priorities = 0xff;  ///< bit n: queues of priority n mark
};

/// Owner: one thread.
class Red {
 public:
  /// The stream of random numbers has its name: the port of the switch.
  Red(const RedConfig& config, std::uint64_t seed, std::uint32_t switch_number, std::uint32_t port)
      : config_(config),
        slope_(config.kmax_bytes > config.kmin_bytes ? config.pmax / (config.kmax_bytes - config.kmin_bytes) : 0),
        random_(seed, kStreams | std::uint64_t{switch_number} << 20 | port) {}

  /// Probability of a mark at this queue length, which does not count the frame itself.
  double probability(std::uint64_t queue_bytes) const {
    if (queue_bytes <= config_.kmin_bytes) return 0;
    if (queue_bytes > config_.kmax_bytes) return 1;
    return slope_ * static_cast<double>(queue_bytes - config_.kmin_bytes);
  }
  /// Draws only where the length leaves it open.
  bool marks(unsigned priority, std::uint64_t queue_bytes) {
    if (queue_bytes <= config_.kmin_bytes || (config_.priorities >> priority & 1) == 0) return false;
    if (queue_bytes > config_.kmax_bytes) return true;
    return random_.chance(probability(queue_bytes));
  }

 private:
  static constexpr std::uint64_t kStreams = std::uint64_t{0x52'4544} << 40;  // "RED"

  RedConfig config_;
  double slope_;
  Random random_;
};

}  // namespace roci::fabric
