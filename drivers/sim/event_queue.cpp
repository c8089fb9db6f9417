#include "drivers/sim/event_queue.h"

#include <algorithm>
#include <bit>
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
  const std::int64_t tick = tick_of(event.at);
  if (tick <= tick_) return insert_ready(event);
  if (tick < tick_ + kSlots) return put_in_slot(event);
  far_.push_back(event);
  std::push_heap(far_.begin(), far_.end(), later);
}

void EventQueue::insert_ready(const Event& event) {
  const auto place = std::upper_bound(ready_.begin(), ready_.end(), event, later);
  ready_.insert(place, event);
}

void EventQueue::put_in_slot(const Event& event) {
  if (free_node_ == kNone) {
    free_node_ = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  const std::uint32_t index = free_node_;
  Node& node = nodes_[index];
  const std::size_t slot = slot_of(tick_of(event.at));
  free_node_ = node.next;
  node = {event, slots_[slot]};
  slots_[slot] = index;
  occupied_[slot / 64] |= 1ull << slot % 64;
}

/// The first tick after `after`, within a round, that has events; -1 if there is none.
std::int64_t EventQueue::next_occupied(std::int64_t after) const {
  const std::size_t start = slot_of(after + 1);
  const std::uint64_t rest = occupied_[start / 64] >> start % 64;
  if (rest != 0) return after + 1 + std::countr_zero(rest);
  std::int64_t tick = after + 1 + 64 - static_cast<std::int64_t>(start % 64);
  for (std::size_t i = 1; i <= kWords; ++i, tick += 64)
    if (const std::uint64_t word = occupied_[(start / 64 + i) % kWords]; word != 0)
      return tick + std::countr_zero(word);
  return -1;
}

/// Makes the events of the next tick ready; false if there is none.
bool EventQueue::open_next() {
  const auto bring_near = [this] {
    while (!far_.empty() && tick_of(far_.front().at) < tick_ + kSlots) {
      std::pop_heap(far_.begin(), far_.end(), later);
      put_in_slot(far_.back());
      far_.pop_back();
    }
  };
  bring_near();
  std::int64_t next = next_occupied(tick_);
  if (next < 0) {
    if (far_.empty()) return false;
    tick_ = tick_of(far_.front().at) - 1;
    bring_near();
    next = next_occupied(tick_);
  }
  tick_ = next;
  const std::size_t slot = slot_of(tick_);
  occupied_[slot / 64] &= ~(1ull << slot % 64);
  for (std::uint32_t index = std::exchange(slots_[slot], kNone); index != kNone;) {
    Node& node = nodes_[index];
    ready_.push_back(node.event);
    const std::uint32_t behind = std::exchange(node.next, free_node_);
    free_node_ = index;
    index = behind;
  }
  std::sort(ready_.begin(), ready_.end(), later);
  fetch_behind();
  return true;
}

/// What an event is about was last touched long ago: it is fetched while those of the slot before happen.
void EventQueue::fetch_behind() const {
  constexpr std::uint64_t kLineBytes = 64;
  const std::int64_t next = next_occupied(tick_);
  if (next < 0) return;
  for (std::uint32_t index = slots_[slot_of(next)]; index != kNone; index = nodes_[index].next) {
    const Event& event = nodes_[index].event;
    __builtin_prefetch(event.target);
    __builtin_prefetch(reinterpret_cast<const void*>(event.argument));
    __builtin_prefetch(reinterpret_cast<const void*>(event.argument + kLineBytes));
  }
}

void EventQueue::call_at(Instant at, std::function<void()> function) {
  schedule(at, functions_, functions_.put(std::move(function)));
}

bool EventQueue::step() {
  if (ready_.empty() && !open_next()) return false;
  const Event event = ready_.back();
  ready_.pop_back();
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
