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
  const Event event{std::max(at, now_), order_++, &target, argument};
  std::size_t hole = heap_.size();
  heap_.push_back(event);
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / kArity;
    if (!earlier(event, heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = event;
}

EventQueue::Event EventQueue::pop() {
  const Event first = heap_.front();
  const Event last = heap_.back();
  heap_.pop_back();
  const std::size_t size = heap_.size();
  if (size == 0) return first;
  std::size_t hole = 0;
  for (std::size_t child = 1; child < size; child = hole * kArity + 1) {
    std::size_t least = child;
    const std::size_t end = std::min(child + kArity, size);
    for (std::size_t i = child + 1; i < end; ++i)
      if (earlier(heap_[i], heap_[least])) least = i;
    if (!earlier(heap_[least], last)) break;
    heap_[hole] = heap_[least];
    hole = least;
  }
  heap_[hole] = last;
  return first;
}

void EventQueue::call_at(Instant at, std::function<void()> function) {
  schedule(at, functions_, functions_.put(std::move(function)));
}

bool EventQueue::step() {
  if (heap_.empty()) return false;
  const Event event = pop();
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
