// What the scheduler knows of a sender. A QP is one.
#pragma once

#include <cstdint>

#include "stack/base/types.h"
#include "stack/egress/pacer.h"

namespace roci::egress {

/// Where a flow stands.
enum class FlowState : std::uint8_t {
  kIdle,     ///< has nothing to send
  kReady,    ///< in the queue of its priority
  kPaced,    ///< in the timing wheel, until `send_at`
  kBlocked,  ///< the link has no room for it in this turn
};

/// Owner: worker.
struct Flow {
  FlowState flow_state = FlowState::kIdle;
  std::uint8_t priority = 0;
  Flow* next = nullptr;
  Flow* previous = nullptr;
  std::uint16_t wheel_slot = 0;
  Instant send_at{};
  Pacer pacer;
};

/// A doubly linked list through the flows themselves: a flow is in one at most.
class FlowList {
 public:
  bool empty() const { return head_ == nullptr; }
  Flow* front() const { return head_; }

  void push_back(Flow& flow) {
    flow.next = nullptr;
    flow.previous = tail_;
    (tail_ == nullptr ? head_ : tail_->next) = &flow;
    tail_ = &flow;
  }
  void remove(Flow& flow) {
    (flow.previous == nullptr ? head_ : flow.previous->next) = flow.next;
    (flow.next == nullptr ? tail_ : flow.next->previous) = flow.previous;
  }
  Flow* pop_front() {
    Flow* flow = head_;
    if (flow != nullptr) remove(*flow);
    return flow;
  }

 private:
  Flow* head_ = nullptr;
  Flow* tail_ = nullptr;
};

}  // namespace roci::egress
