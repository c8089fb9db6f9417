// How far the two cores of a measurement lie from each other. Where cores are threads of a hypervisor, it moves them
// every second or so, and all figures with them by a factor of 2 to 4: only what was measured at one distance is
// comparable.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "stack/base/types.h"

namespace roci::bench {

/// Of a cache line from one core to the other and back. Cores with a cache in common answer in some 50 to 200 ns, those
/// without one in 300 to 800.
inline constexpr double kNearRoundTripNs = 250;

/// Round trips that were seen while something was measured, in ns.
struct Looks {
  std::vector<double> round_trips_ns;

  /// How many of them say that the cores were near; nothing without a look.
  std::optional<double> near_share() const;
};

/// Two threads, one on each core, which send a cache line to and fro for some microseconds now and then, whatever else
/// runs there. With one core: none, and no looks.
class DistanceMonitor {
 public:
  DistanceMonitor();
  ~DistanceMonitor() = default;
  DistanceMonitor(const DistanceMonitor&) = delete;
  DistanceMonitor& operator=(const DistanceMonitor&) = delete;

  /// What it has seen since it was last asked.
  Looks take();

 private:
  struct alignas(128) Line {
    std::atomic<std::uint64_t> value{0};
  };
  void ask(const std::stop_token& stop);
  void answer(const std::stop_token& stop);
  std::optional<double> look(std::uint64_t first_trip);

  const Instant start_;  ///< both wake up at this and each multiple of the period after it
  Line question_;
  Line reply_;
  std::mutex mutex_;
  Looks looks_;
  std::jthread answering_;
  std::jthread asking_;
};

/// Which of several measurements of one thing counts: the first that ran with the cores near for nearly all the time,
/// or else the one that did so for longest. A machine whose cores are never near is not measured again and again.
class Steadiness {
 public:
  static constexpr double kLeastNearShare = 0.8;
  static constexpr unsigned kMostTries = 12;
  /// After so many in a row that were not near at all, each is tried once.
  static constexpr unsigned kNeverNear = 60;

  /// Repeats `measure`, which takes what `looks` then tells about.
  template <class Measure, class TakeLooks>
  auto best_of(Measure measure, TakeLooks looks) {
    looks();
    auto best = measure();
    Looks best_looks = looks();
    for (unsigned tries = 1; try_again(best_looks, tries); ++tries) {
      auto other = measure();
      Looks other_looks = looks();
      if (other_looks.near_share().value_or(0) <= best_looks.near_share().value_or(0)) continue;
      best = std::move(other);
      best_looks = std::move(other_looks);
    }
    count(best_looks);
    return best;
  }

  /// The median of all looks at what counted; nothing with one core.
  std::optional<double> round_trip_ns() const;
  unsigned unsteady() const { return unsteady_; }  ///< measurements that count although the cores were not near

 private:
  bool try_again(const Looks& looks, unsigned tries);
  void count(const Looks& looks);

  unsigned never_near_ = 0;
  unsigned unsteady_ = 0;
  std::vector<double> round_trips_ns_;
};

}  // namespace roci::bench
