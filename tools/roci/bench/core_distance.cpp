#include "tools/roci/bench/core_distance.h"

#include <sched.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "drivers/live/clock.h"
#include "tools/roci/bench/cores.h"
#include "tools/roci/bench/table.h"

namespace roci::bench {
namespace {

constexpr Duration kPeriod = milliseconds(10);
/// The other thread is not there: it has to wait for its core.
constexpr Duration kPatience = microseconds(100);
constexpr unsigned kTripsOfALook = 16;

bool has_two_cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) >= 2;
}

void sleep_until(Instant instant) {
  const std::int64_t ns = instant.ns();
  const timespec when{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr);
}

/// The first of the common instants that is still to come, counted from `start`.
std::int64_t next_period(Instant start) { return (live_now() - start).ps / kPeriod.ps + 1; }

/// A look's trips have numbers of their own, so that an answer never belongs to another look.
std::uint64_t first_trip_of(std::int64_t period) { return static_cast<std::uint64_t>(period) * kTripsOfALook; }

}  // namespace

std::optional<double> Looks::near_share() const {
  if (round_trips_ns.empty()) return std::nullopt;
  const auto near = std::ranges::count_if(round_trips_ns, [](double ns) { return ns <= kNearRoundTripNs; });
  return static_cast<double>(near) / static_cast<double>(round_trips_ns.size());
}

DistanceMonitor::DistanceMonitor() : start_(live_now()) {
  if (!has_two_cores()) return;
  answering_ = std::jthread([this](const std::stop_token& stop) { answer(stop); });
  asking_ = std::jthread([this](const std::stop_token& stop) { ask(stop); });
}

Looks DistanceMonitor::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(looks_, {});
}

void DistanceMonitor::ask(const std::stop_token& stop) {
  put_on_core(0);
  while (!stop.stop_requested()) {
    const std::int64_t period = next_period(start_);
    sleep_until(start_ + kPeriod * period);
    const std::optional<double> round_trip_ns = look(first_trip_of(period));
    const std::scoped_lock lock(mutex_);
    if (round_trip_ns.has_value()) looks_.round_trips_ns.push_back(*round_trip_ns);
  }
}

/// The fastest trip: the others may have been interrupted, or wait for the other thread to wake up.
std::optional<double> DistanceMonitor::look(std::uint64_t first_trip) {
  std::int64_t fastest_ps = kPatience.ps;
  for (std::uint64_t trip = first_trip; trip < first_trip + kTripsOfALook; ++trip) {
    const Instant asked = live_now();
    question_.value.store(trip, std::memory_order_release);
    Instant now = asked;
    while (reply_.value.load(std::memory_order_acquire) != trip)
      if (now = live_now(); now - asked > kPatience) return std::nullopt;
    fastest_ps = std::min(fastest_ps, (live_now() - asked).ps);
  }
  return static_cast<double>(fastest_ps) / 1e3;
}

void DistanceMonitor::answer(const std::stop_token& stop) {
  put_on_core(1);
  while (!stop.stop_requested()) {
    const std::int64_t period = next_period(start_);
    const std::uint64_t last_trip = first_trip_of(period) + kTripsOfALook - 1;
    sleep_until(start_ + kPeriod * period);
    const Instant awake = live_now();
    for (std::uint64_t answered = 0; answered != last_trip && live_now() - awake < kPatience;) {
      answered = question_.value.load(std::memory_order_acquire);
      reply_.value.store(answered, std::memory_order_release);
    }
  }
}

bool Steadiness::try_again(const Looks& looks, unsigned tries) {
  const std::optional<double> share = looks.near_share();
  if (!share.has_value() || *share >= kLeastNearShare) return false;
  return never_near_ < kNeverNear && tries < kMostTries;
}

void Steadiness::count(const Looks& looks) {
  const std::optional<double> share = looks.near_share();
  if (!share.has_value()) return;
  never_near_ = *share > 0 ? 0 : never_near_ + kMostTries;
  if (*share < kLeastNearShare) ++unsteady_;
  round_trips_ns_.insert(round_trips_ns_.end(), looks.round_trips_ns.begin(), looks.round_trips_ns.end());
}

std::optional<double> Steadiness::round_trip_ns() const {
  if (round_trips_ns_.empty()) return std::nullopt;
  return median(round_trips_ns_);
}

}  // namespace roci::bench
