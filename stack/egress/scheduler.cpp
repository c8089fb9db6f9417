#include "stack/egress/scheduler.h"

namespace roci::egress {
namespace {

/// No frame is longer, so a class can always pay for one.
constexpr std::uint32_t kMinQuantumBytes = 4608;

}  // namespace

void Scheduler::configure(const Settings& settings) {
  settings_ = settings;
  classes_.configure(settings.tc_bw, kMinQuantumBytes);
}

void Scheduler::schedule_paced(Flow& flow, Instant at, Instant now) {
  if (flow.flow_state == FlowState::kBlocked) return;
  if (flow.flow_state == FlowState::kPaced) {
    if (at == flow.send_at) return;
    wheel_.remove(flow);
  }
  if (at <= now) return make_ready(flow);
  flow.flow_state = FlowState::kPaced;
  wheel_.insert(flow, at, now);
}

void Scheduler::unblock_oldest() {
  for (unsigned left = any_blocked_; left != 0; left &= left - 1) {
    const auto priority = static_cast<unsigned>(std::countr_zero(left));
    FlowList& list = blocked_[priority];
    for (unsigned i = 0; i < kRetries && !list.empty(); ++i) make_ready(*list.pop_front());
    if (list.empty()) any_blocked_ = static_cast<std::uint8_t>(any_blocked_ & ~(1u << priority));
  }
}

void Scheduler::release_due(Instant now) {
  wheel_.expire(now, [this](Flow& flow) { make_ready(flow); });
}

/// Priorities of one class take turns.
unsigned Scheduler::choose_priority(std::uint8_t eligible) {
  const unsigned traffic_class = classes_.pick(classes_of(eligible), classes_of(ready_));
  std::uint8_t& last = last_priority_[traffic_class];
  do last = static_cast<std::uint8_t>((last + 1) % kPriorities);
  while ((eligible >> last & 1) == 0 || settings_.prio_tc[last] != traffic_class);
  return last;
}

std::uint8_t Scheduler::classes_of(std::uint8_t priorities) const {
  unsigned classes = 0;
  for (unsigned priority = 0; priority < kPriorities; ++priority)
    if ((priorities >> priority & 1) != 0) classes |= 1u << settings_.prio_tc[priority];
  return static_cast<std::uint8_t>(classes);
}

void Scheduler::remove(Flow& flow) {
  switch (flow.flow_state) {
    case FlowState::kReady:
      queues_[flow.priority].remove(flow);
      if (queues_[flow.priority].empty()) ready_ = static_cast<std::uint8_t>(ready_ & ~(1u << flow.priority));
      break;
    case FlowState::kPaced:
      wheel_.remove(flow);
      break;
    case FlowState::kBlocked:
      blocked_[flow.priority].remove(flow);
      if (blocked_[flow.priority].empty())
        any_blocked_ = static_cast<std::uint8_t>(any_blocked_ & ~(1u << flow.priority));
      break;
    case FlowState::kIdle:
      break;
  }
  flow.flow_state = FlowState::kIdle;
}

}  // namespace roci::egress
