#include "drivers/sim/sim_host.h"

#include <algorithm>
#include <utility>

namespace roci::sim {
namespace {

/// Streams of the run's seed, by host.
enum Stream : std::uint64_t { kEntropyStream = 1, kJitterStream = 2, kStreamsPerHost = 8 };

std::vector<std::unique_ptr<HostPort>> only(std::unique_ptr<HostPort> port) {
  std::vector<std::unique_ptr<HostPort>> ports;
  ports.push_back(std::move(port));
  return ports;
}

}  // namespace

SimHost::SimHost(EventQueue& events, std::unique_ptr<HostPort> port, std::uint32_t number, std::uint64_t seed,
                 const HostConfig& config)
    : SimHost(events, only(std::move(port)), number, seed, config) {}

SimHost::SimHost(EventQueue& events, std::vector<std::unique_ptr<HostPort>> ports, std::uint32_t number,
                 std::uint64_t seed, const HostConfig& config)
    : events_(events),
      number_(number),
      config_(config),
      entropy_(seed, number * kStreamsPerHost + kEntropyStream),
      jitter_(seed, number * kStreamsPerHost + kJitterStream) {
  std::vector<WorkerSeat> workers;
  for (auto& port : ports) {
    seats_.push_back(std::make_unique<Seat>(*this, static_cast<std::uint32_t>(seats_.size())));
    Seat& seat = *seats_.back();
    seat.host_port = port.get();
    seat.host_port->set_listener(seat);
    seat.port = std::move(port);
    if (config.decorate) seat.port = config.decorate(std::move(seat.port));
    workers.push_back({.port = seat.port.get(), .counters = &seat.counters});
  }
  device_ = std::make_unique<Device>(workers, *this, *this, config.device);
}

SimHost::~SimHost() = default;

int SimHost::post_send(Qp* qp, const SendRequest& request) {
  const int error = device_->post_send(qp, request);
  if (error != 0) return error;
  device_->ring(qp);
  request_turn(*seats_[Device::worker_of(*qp)]);
  return 0;
}

void SimHost::request_turn() {
  for (const auto& seat : seats_) request_turn(*seat);
}

void SimHost::request_turn(Seat& seat) {
  const Instant soonest = std::max(events_.now(), seat.earliest_turn);
  if (seat.next_turn <= soonest) return;
  turn_at(seat, soonest);
}

void SimHost::turn_at(Seat& seat, Instant at) {
  const Duration late{static_cast<std::int64_t>(jitter_.below(static_cast<std::uint64_t>(config_.turn_jitter.ps) + 1))};
  const Instant when = std::max(at, seat.earliest_turn) + late;
  if (when >= seat.next_turn) return;
  seat.next_turn = when;
  events_.schedule(when, *this, seat.number);
}

void SimHost::on_event(Instant now, std::uint64_t argument) {
  Seat& seat = *seats_[argument];
  if (now != seat.next_turn) return;
  seat.next_turn = kNever;
  if (!stopped_) turn(seat, now);
}

void SimHost::turn(Seat& seat, Instant now) {
  seat.earliest_turn = now + config_.turn_time;
  Worker& worker = device_->worker(seat.number);
  const TurnResult result = worker.turn(now, TurnReason::kPoll);
  if (application_) application_();
  HostPort& port = *seat.host_port;
  if (result.more_to_do || worker.has_rung() || port.has_frames()) request_turn(seat);
  if (result.waits_for_room && port.room_at() != Instant{}) turn_at(seat, port.room_at());
  const Instant deadline = worker.next_deadline();
  if (deadline != kNever) turn_at(seat, deadline);
}

void SimHost::stop(bool known) {
  stopped_ = true;
  for (const auto& seat : seats_) seat->host_port->set_stalled(known);
}

void SimHost::resume() {
  stopped_ = false;
  for (const auto& seat : seats_) seat->host_port->set_stalled(false);
  request_turn();
}

void SimHost::on_completion_event(Cq&) { ++completion_events_; }

void SimHost::on_async_event(const AsyncEvent& event) { async_events_.push_back(event); }

}  // namespace roci::sim
