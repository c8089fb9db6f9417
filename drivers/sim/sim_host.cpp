#include "drivers/sim/sim_host.h"

#include <algorithm>
#include <utility>

namespace roci::sim {
namespace {

/// Streams of the run's seed, by host.
enum Stream : std::uint64_t { kEntropyStream = 1, kJitterStream = 2, kStreamsPerHost = 8 };

}  // namespace

SimHost::SimHost(EventQueue& events, std::unique_ptr<HostPort> port, std::uint32_t number, std::uint64_t seed,
                 const HostConfig& config)
    : events_(events),
      number_(number),
      config_(config),
      entropy_(seed, number * kStreamsPerHost + kEntropyStream),
      jitter_(seed, number * kStreamsPerHost + kJitterStream) {
  host_port_ = port.get();
  host_port_->set_listener(*this);
  port_ = std::move(port);
  if (config.decorate) port_ = config.decorate(std::move(port_));
  device_ = std::make_unique<Device>(*port_, *this, *this, counters_, config.device);
}

SimHost::~SimHost() = default;

int SimHost::post_send(Qp* qp, const SendRequest& request) {
  const int error = device_->post_send(qp, request);
  if (error != 0) return error;
  device_->ring(qp);
  request_turn();
  return 0;
}

void SimHost::request_turn() {
  const Instant soonest = std::max(events_.now(), earliest_turn_);
  if (next_turn_ <= soonest) return;
  turn_at(soonest);
}

void SimHost::turn_at(Instant at) {
  const Duration late{static_cast<std::int64_t>(jitter_.below(static_cast<std::uint64_t>(config_.turn_jitter.ps) + 1))};
  const Instant when = std::max(at, earliest_turn_) + late;
  if (when >= next_turn_) return;
  next_turn_ = when;
  events_.schedule(when, *this);
}

void SimHost::on_event(Instant now, std::uint64_t) {
  if (now != next_turn_) return;
  next_turn_ = kNever;
  if (!stopped_) turn(now);
}

void SimHost::turn(Instant now) {
  earliest_turn_ = now + config_.turn_time;
  const TurnResult result = device_->worker().turn(now, TurnReason::kPoll);
  if (application_) application_();
  if (result.more_to_do || device_->worker().has_rung() || host_port_->has_frames()) request_turn();
  if (result.waits_for_room && host_port_->room_at() != Instant{}) turn_at(host_port_->room_at());
  const Instant deadline = device_->worker().next_deadline();
  if (deadline != kNever) turn_at(deadline);
}

void SimHost::stop(bool known) {
  stopped_ = true;
  host_port_->set_stalled(known);
}

void SimHost::resume() {
  stopped_ = false;
  host_port_->set_stalled(false);
  request_turn();
}

void SimHost::on_completion_event(Cq&) { ++completion_events_; }

void SimHost::on_async_event(const AsyncEvent& event) { async_events_.push_back(event); }

}  // namespace roci::sim
