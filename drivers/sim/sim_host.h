// A simulated host: a whole stack, a port for each of its workers, and the rule by which these get their turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "drivers/sim/event_queue.h"
#include "drivers/sim/host_port.h"
#include "stack/base/counters.h"
#include "stack/base/entropy.h"
#include "stack/base/random.h"
#include "stack/control/device.h"

namespace roci::sim {

struct HostConfig {
  DeviceConfig device;
  std::uint32_t workers = 1;              ///< where the network is a segment
  Duration turn_time = nanoseconds(100);  ///< a worker's turns are at least this far apart
  Duration turn_jitter{};                 ///< a turn comes up to this much later, drawn from the seed
  /// Puts another port, which it returns, between the stack and each of the host's ports: a FaultPort, say.
  std::function<std::unique_ptr<Port>(std::unique_ptr<Port> inner)> decorate;
};

/// Turned when frames arrive, when the application posts, when a deadline comes, and as long as there is more to do.
class SimHost : public EventTarget, public EventSink, public Entropy {
 public:
  /// `ports` are the host's own, one for each worker; `number` tells its random streams apart.
  SimHost(EventQueue& events, std::vector<std::unique_ptr<HostPort>> ports, std::uint32_t number, std::uint64_t seed,
          const HostConfig& config);
  /// One worker.
  SimHost(EventQueue& events, std::unique_ptr<HostPort> port, std::uint32_t number, std::uint64_t seed,
          const HostConfig& config);
  ~SimHost() override;
  SimHost(const SimHost&) = delete;
  SimHost& operator=(const SimHost&) = delete;

  std::uint32_t number() const { return number_; }
  Device& device() { return *device_; }
  const Counters& counters(std::uint32_t worker = 0) const { return seats_[worker]->counters; }
  HostPort& port(std::uint32_t worker = 0) { return *seats_[worker]->host_port; }
  /// Asynchronous events so far, oldest first.
  const std::vector<AsyncEvent>& async_events() const { return async_events_; }
  std::uint64_t completion_events() const { return completion_events_; }

  /// The application: called after each turn; it may post and poll.
  void set_application(std::function<void()> application) { application_ = std::move(application); }
  /// Device::post_send, then the doorbell and a turn.
  int post_send(Qp* qp, const SendRequest& request);
  /// A turn of each worker as soon as it can.
  void request_turn();
  /// A host that is stopped takes no turns. `known`: its peers' links can tell (a cable can, a wire cannot).
  void stop(bool known);
  void resume();

  /// `argument`: number of the worker whose turn it is.
  void on_event(Instant now, std::uint64_t argument) override;
  void on_completion_event(Cq& cq) override;
  void on_async_event(const AsyncEvent& event) override;
  std::uint64_t next() override { return entropy_.next(); }

 private:
  /// What a worker has to itself.
  struct Seat : ArrivalListener {
    Seat(SimHost& at, std::uint32_t worker) : host(at), number(worker) {}
    void on_frame_ready() override { host.request_turn(*this); }

    SimHost& host;
    const std::uint32_t number;
    std::unique_ptr<Port> port;
    HostPort* host_port = nullptr;
    Counters counters;
    Instant next_turn = kNever;  ///< scheduled; another event is out of date
    Instant earliest_turn{};
  };

  void request_turn(Seat& seat);
  void turn_at(Seat& seat, Instant at);
  void turn(Seat& seat, Instant now);

  EventQueue& events_;
  const std::uint32_t number_;
  const HostConfig config_;
  Random entropy_;
  Random jitter_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::unique_ptr<Device> device_;
  std::function<void()> application_;
  std::vector<AsyncEvent> async_events_;
  std::uint64_t completion_events_ = 0;
  bool stopped_ = false;
};

}  // namespace roci::sim
