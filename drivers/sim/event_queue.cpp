#include "drivers/sim/event_queue.h"

#include <algorithm>
#include <utility>

namespace roci::sim {

std::uint64_t EventQueue::Functions::put(std::function<void()> function) {
  if (free_.empty()) {
    slots_.push_back(std::move(function));
    return slots_.size() - 1;
  }
  const std::uint64_t slot = free_.back();
  free_.pop_back();
  slots_[slot] = std::move(function);
  return slot;
}

void EventQueue::Functions::on_event(Instant, std::uint64_t argument) {
  // The function may schedule others: its slot must be free and untouched by then.
  const std::function<void()> function = std::exchange(slots_[argument], nullptr);
  free_.push_back(argument);
  function();
}

void EventQueue::schedule(Instant at, EventTarget& target, std::uint64_t argument) {
  heap_.push_back({std::max(at, now_), order_++, &target, argument});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void EventQueue::call_at(Instant at, std::function<void()> function) {
  schedule(at, functions_, functions_.put(std::move(function)));
}

bool EventQueue::step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = event.at;
  ++events_run_;
  event.target->on_event(now_, event.argument);
  return true;
}

void EventQueue::run_until(Instant end) {
  while (next_at() <= end && step()) {
  }
  now_ = std::max(now_, end);
}

}  // namespace roci::sim
