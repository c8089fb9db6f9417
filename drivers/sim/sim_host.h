// A simulated host: a port, a whole stack, and the rule by which it gets its turns.
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
  Duration turn_time = nanoseconds(100);  ///< a host's turns are at least this far apart
  Duration turn_jitter{};                 ///< a turn comes up to this much later, drawn from the seed
  /// Puts another port, which it returns, between the stack and the segment: a FaultPort, say.
  std::function<std::unique_ptr<Port>(std::unique_ptr<Port> inner)> decorate;
};

/// Turned when frames arrive, when the application posts, when a deadline comes, and as long as there is more to do.
class SimHost : public EventTarget, public EventSink, public Entropy, public ArrivalListener {
 public:
  /// `port` is the host's own; `number` tells its random streams apart.
  SimHost(EventQueue& events, std::unique_ptr<HostPort> port, std::uint32_t number, std::uint64_t seed,
          const HostConfig& config);
  ~SimHost() override;
  SimHost(const SimHost&) = delete;
  SimHost& operator=(const SimHost&) = delete;

  std::uint32_t number() const { return number_; }
  Device& device() { return *device_; }
  const Counters& counters() const { return counters_; }
  HostPort& port() { return *host_port_; }
  /// Asynchronous events so far, oldest first.
  const std::vector<AsyncEvent>& async_events() const { return async_events_; }
  std::uint64_t completion_events() const { return completion_events_; }

  /// The application: called after each turn; it may post and poll.
  void set_application(std::function<void()> application) { application_ = std::move(application); }
  /// Device::post_send, then the doorbell and a turn.
  int post_send(Qp* qp, const SendRequest& request);
  /// A turn as soon as the host can.
  void request_turn();
  /// A host that is stopped takes no turns. `known`: its peers' links can tell (a cable can, a wire cannot).
  void stop(bool known);
  void resume();

  void on_event(Instant now, std::uint64_t argument) override;
  void on_completion_event(Cq& cq) override;
  void on_async_event(const AsyncEvent& event) override;
  std::uint64_t next() override { return entropy_.next(); }
  void on_frame_ready() override { request_turn(); }

 private:
  void turn_at(Instant at);
  void turn(Instant now);

  EventQueue& events_;
  const std::uint32_t number_;
  const HostConfig config_;
  Random entropy_;
  Random jitter_;
  std::unique_ptr<Port> port_;
  HostPort* host_port_ = nullptr;
  Counters counters_;
  std::unique_ptr<Device> device_;
  std::function<void()> application_;
  std::vector<AsyncEvent> async_events_;
  std::uint64_t completion_events_ = 0;
  Instant next_turn_ = kNever;  ///< scheduled; another event is out of date
  Instant earliest_turn_{};
  bool stopped_ = false;
};

}  // namespace roci::sim
