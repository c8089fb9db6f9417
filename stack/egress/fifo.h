// Which flow may send next. For now a plain FIFO over the flows that have work: each gets a burst and goes to the end.
// Pacing, priorities and PFC belong here and nowhere else.
#pragma once

#include <cstddef>

namespace roci::egress {

/// What the scheduler knows of a sender. A QP is one.
struct Flow {
  Flow* next = nullptr;
  bool queued = false;
};

/// Owner: worker.
class Fifo {
 public:
  /// The flow has something to send. Does nothing if it is queued already.
  void activate(Flow& flow) {
    if (flow.queued) return;
    flow.queued = true;
    flow.next = nullptr;
    (tail_ == nullptr ? head_ : tail_->next) = &flow;
    tail_ = &flow;
    ++size_;
  }

  /// Takes the flow whose turn it is, or null. The caller activates it again if it has more to send.
  Flow* take() {
    Flow* flow = head_;
    if (flow == nullptr) return nullptr;
    head_ = flow->next;
    if (head_ == nullptr) tail_ = nullptr;
    flow->queued = false;
    --size_;
    return flow;
  }

  /// Forgets a flow that is about to be destroyed.
  void remove(Flow& flow) {
    if (!flow.queued) return;
    Flow* previous = nullptr;
    for (Flow* at = head_; at != &flow; at = at->next) previous = at;
    (previous == nullptr ? head_ : previous->next) = flow.next;
    if (tail_ == &flow) tail_ = previous;
    flow.queued = false;
    --size_;
  }

  bool empty() const { return head_ == nullptr; }
  std::size_t size() const { return size_; }

 private:
  Flow* head_ = nullptr;
  Flow* tail_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace roci::egress
