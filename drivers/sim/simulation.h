// A simulation: a clock, a segment and its hosts. No real clock, no threads; the same seed gives the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "drivers/sim/event_queue.h"
#include "drivers/sim/network.h"
#include "drivers/sim/sim_host.h"
#include "drivers/sim/sim_port.h"

namespace roci::sim {

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : seed_(seed), network_(events_) {}

  std::uint64_t seed() const { return seed_; }
  EventQueue& events() { return events_; }
  Network& network() { return network_; }
  Instant now() const { return events_.now(); }

  SimHost& add_host(const HostConfig& config = {}) {
    const auto number = static_cast<std::uint32_t>(hosts_.size());
    std::vector<std::unique_ptr<HostPort>> ports;
    for (std::uint32_t i = 0; i < config.workers; ++i)
      ports.push_back(
          std::make_unique<SimPort>(network_, PortPlace{.host = number, .worker = i, .workers = config.workers}));
    hosts_.push_back(std::make_unique<SimHost>(events_, std::move(ports), number, seed_, config));
    return *hosts_.back();
  }
  SimHost& host(std::uint32_t number) { return *hosts_[number]; }
  std::size_t hosts() const { return hosts_.size(); }

  /// Lets things happen until `done()` or `end`; true if it was done. Looks after each event.
  template <class Done>
  bool run(Instant end, Done done) {
    while (!done()) {
      if (events_.next_at() > end) return false;
      events_.step();
    }
    return true;
  }

 private:
  const std::uint64_t seed_;
  EventQueue events_;
  Network network_;
  std::vector<std::unique_ptr<SimHost>> hosts_;
};

}  // namespace roci::sim
