// Which flow may send next: the one place where pacing, priorities, traffic classes and PFC decide.
//
// A flow that has something to send is ready, in the queue of its priority, or waits in the timing wheel for the time
// that its pacer allows. take() chooses a traffic class (strict, then by deficit round robin), of that a priority that
// is not paused, and of that the flow that has waited longest; each gets a burst and goes to the end.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "stack/egress/dwrr.h"
#include "stack/egress/flow.h"
#include "stack/egress/pause.h"
#include "stack/egress/settings.h"
#include "stack/egress/timing_wheel.h"

namespace roci::egress {

/// Owner: worker.
class Scheduler {
 public:
  explicit Scheduler(const Settings& settings = {}) { configure(settings); }

  /// Before any flow.
  void configure(const Settings& settings);
  const Settings& settings() const { return settings_; }

  /// The flow has something to send from `at` on: now, or when its pacer allows. The newest time counts.
  void schedule(Flow& flow, Instant at, Instant now) {
    if (flow.flow_state == FlowState::kReady) return;
    if (flow.flow_state == FlowState::kIdle && at <= now) return make_ready(flow);
    schedule_paced(flow, at, now);
  }
  /// The flow whose turn it is, idle from then on, or null. The caller schedules it again if it has more to send.
  Flow* take(Instant now) {
    if (!wheel_.empty()) release_due(now);
    const auto eligible = static_cast<std::uint8_t>(ready_ & ~pauses_.mask(now));
    if (eligible == 0) return nullptr;
    contended_ = !std::has_single_bit(ready_);
    const unsigned priority =
        contended_ ? choose_priority(eligible) : static_cast<unsigned>(std::countr_zero(eligible));
    FlowList& queue = queues_[priority];
    Flow* flow = queue.pop_front();
    flow->flow_state = FlowState::kIdle;
    if (queue.empty()) ready_ = static_cast<std::uint8_t>(ready_ & ~(1u << priority));
    return flow;
  }
  /// Blocked flows that one unblock() lets try again, of each priority. They usually wait for one and the same ring,
  /// and with hundreds of them most would look for room in vain, again and again.
  static constexpr unsigned kRetries = 32;

  /// take() gave this flow, and the link has no room for it: it is ready again after an unblock().
  void block(Flow& flow) {
    flow.flow_state = FlowState::kBlocked;
    blocked_[flow.priority].push_back(flow);
    any_blocked_ = static_cast<std::uint8_t>(any_blocked_ | 1u << flow.priority);
  }
  /// Those that have waited longest are ready again. False if there were none.
  bool unblock() {
    if (any_blocked_ == 0) return false;
    unblock_oldest();
    return true;
  }
  /// The flow that take() gave last has sent so much, preamble and gap included.
  void on_sent(const Flow& flow, std::uint32_t wire_bytes) {
    if (contended_) classes_.on_sent(settings_.prio_tc[flow.priority], wire_bytes);
  }
  /// Forgets a flow that is about to be destroyed, or changes its priority.
  void remove(Flow& flow);

  PauseState& pauses() { return pauses_; }

  bool has_ready() const { return ready_ != 0; }
  /// When take() will give a flow that it does not give now: for a pace or a pause.
  Instant next_deadline() const { return std::min(wheel_.earliest(), pauses_.earliest_end(ready_)); }

 private:
  void make_ready(Flow& flow) {
    flow.flow_state = FlowState::kReady;
    queues_[flow.priority].push_back(flow);
    ready_ = static_cast<std::uint8_t>(ready_ | 1u << flow.priority);
  }
  void schedule_paced(Flow& flow, Instant at, Instant now);
  void unblock_oldest();
  unsigned choose_priority(std::uint8_t eligible);
  std::uint8_t classes_of(std::uint8_t priorities) const;
  void release_due(Instant now);

  Settings settings_;
  std::uint8_t ready_ = 0;                                    ///< bit n: the queue of priority n is not empty
  std::array<std::uint8_t, Dwrr::kClasses> last_priority_{};  ///< of each class, that took its last turn
  bool contended_ = false;  ///< the last flow taken was chosen among several priorities
  std::array<FlowList, kPriorities> queues_{};
  std::uint8_t any_blocked_ = 0;  ///< bit n: flows of priority n are blocked
  std::array<FlowList, kPriorities> blocked_{};
  Dwrr classes_;
  PauseState pauses_;
  TimingWheel wheel_;
};

}  // namespace roci::egress
