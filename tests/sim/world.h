// Carries out a plan in a simulation, and checks what comes out against a plain model: memory byte by byte, completions
// one by one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "drivers/faults/fault_port.h"
#include "drivers/sim/simulation.h"
#include "stack/base/random.h"
#include "tests/sim/plan.h"
#include "tests/sim/wire_record.h"

namespace roci::simtest {

/// Registered memory with unregistered guards on both sides, and what it should hold in the end.
struct Region {
  static constexpr std::size_t kGuardBytes = 256;

  std::vector<std::byte> memory;
  std::vector<std::byte> expected;
  std::vector<bool> unknown;  ///< bytes that a failed operation may or may not have changed
  std::uint64_t iova = 0;     ///< of the first registered byte
  Mr* mr = nullptr;

  std::byte* at(std::uint32_t offset) { return memory.data() + kGuardBytes + offset; }
  std::byte* expected_at(std::uint32_t offset) { return expected.data() + kGuardBytes + offset; }
  void forget(std::uint32_t offset, std::uint32_t length);
};

/// One QP as it lives.
struct Endpoint {
  const PlannedEndpoint* plan = nullptr;
  std::uint32_t index = 0;
  sim::SimHost* host = nullptr;
  Qp* qp = nullptr;
  Cq* cq = nullptr;
  Region local;
  Region receive;
  Region target;
  Mw* window = nullptr;  ///< over the target region, if planned
  std::uint32_t window_key = 0;
  bool window_is_gone = false;  ///< the peer has invalidated it
  Mw* spare = nullptr;          ///< of its own use only
  Random random{0};

  std::size_t ops_posted = 0;
  std::size_t ops_completed = 0;    ///< known to be: the next send CQE is of this op or a later one
  std::size_t receives_posted = 0;  ///< to its own queue
  std::size_t receives_completed = 0;
  std::vector<std::size_t> received_by;  ///< for each message received with success, the index of the receive
  bool flushes_receives = false;         ///< a receive was flushed: all later ones must be
  bool failed = false;                   ///< had a completion in error; ops_completed stands at the op after it
  std::size_t failed_op = 0;
  bool closing = false;  ///< put in error by the test: what completes now is flushed
};

class World {
 public:
  /// Each host has `workers` workers, over which its QPs are spread.
  World(const Plan& plan, std::uint32_t workers, bool trace);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Runs to the end. The first thing that is wrong, or empty.
  std::string run();

  const WireRecord& wire() const { return wire_; }
  Instant finished_at() const { return finished_at_; }
  std::uint64_t faults_applied() const;
  std::uint64_t failed_endpoints() const;
  std::uint64_t operations() const;
  std::uint64_t counter(std::uint64_t Counters::*field) const;

 private:
  struct HostState {
    sim::SimHost* host = nullptr;
    Pd* pd = nullptr;
    std::vector<Cq*> cqs;
    Region shared;
    Srq* srq = nullptr;
    Region srq_region;
    std::size_t srq_posted = 0;
    std::vector<bool> srq_completed;
    std::vector<std::size_t> srq_flushed;  ///< receives that a failing QP had in use
  };

  // Setting up.
  void make_hosts();
  void make_srq(HostState& state, const PlannedSrq& planned, std::uint32_t host);
  void make_endpoint(std::uint32_t index);
  std::unique_ptr<Port> decorate(std::unique_ptr<Port> port, std::uint32_t host);
  void make_region(Region& region, HostState& state, std::uint32_t bytes, std::uint32_t access, std::uint64_t iova);
  void make_windows(Endpoint& endpoint);
  void connect(Endpoint& endpoint);
  void schedule();

  // The applications.
  void wake(Endpoint& endpoint);
  void post_ops(Endpoint& endpoint, std::uint64_t most);
  bool post_op(Endpoint& endpoint);
  SendRequest make_local_request(Endpoint& endpoint, const PlannedOp& op);
  void post_receives(Endpoint& endpoint, std::uint64_t most);
  void post_srq_receives(std::uint32_t host, std::uint64_t most);
  int post_receive(Endpoint* endpoint, HostState& state, Region& region, const PlannedReceive& planned,
                   std::uint64_t id);
  bool all_receives_posted(const Endpoint& endpoint) const;
  Endpoint* endpoint_of(Qpn qpn);
  bool take_receive(Endpoint& endpoint, const Cqe& cqe);
  void poll(std::uint32_t host);
  void on_send_completion(Endpoint& endpoint, const Cqe& cqe);
  void on_receive_completion(Endpoint& endpoint, const Cqe& cqe);
  bool error_is_justified(const Endpoint& endpoint, const Cqe& cqe) const;
  /// A fault kept a packet of the QP or its peer from arriving in time.
  bool was_disturbed(const Endpoint& endpoint, Instant from, Instant to) const;

  // The end.
  bool is_finished() const;
  bool is_finished(const Endpoint& endpoint) const;
  void close();
  void check_counters();

  // The model.
  void expect_memory();
  void apply(Endpoint& from, std::size_t op_index, std::size_t* next_message);
  void blur(Endpoint& from, std::size_t op_index, std::size_t* next_message);
  /// Where message `index` to `endpoint` was received, or would be; null if nobody knows.
  const PlannedReceive* receive_of(Endpoint& endpoint, std::size_t index) const;
  Region& receive_region(Endpoint& endpoint) {
    return endpoint.plan->uses_srq ? state_of(endpoint).srq_region : endpoint.receive;
  }
  std::size_t messages_to(const Endpoint& endpoint) const;
  void check_async_events();
  void check_windows();
  void check_region(Region& region, const std::string& name);
  void check_shared_words();

  HostState& state_of(const Endpoint& endpoint) { return hosts_[endpoint.plan->host]; }
  Endpoint& peer_of(const Endpoint& endpoint) { return *endpoints_[endpoint.plan->peer]; }
  const Endpoint& peer_of(const Endpoint& endpoint) const { return *endpoints_[endpoint.plan->peer]; }
  /// Notes the first thing that is wrong.
  void wrong(const std::string& what);

  const Plan& plan_;
  const std::uint32_t workers_;
  WireRecord wire_;
  std::unique_ptr<FaultInjector> link_faults_;
  std::vector<FaultInjector*> injectors_;  ///< that of the links, or those of the ports
  sim::Simulation simulation_;
  std::vector<HostState> hosts_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  Instant finished_at_{};
  std::string wrong_;
};

}  // namespace roci::simtest
