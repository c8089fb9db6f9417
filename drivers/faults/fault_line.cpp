#include "drivers/faults/fault_line.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "stack/engine/port.h"

namespace roci {

FaultLine::FaultLine(FaultInjector& injector, FaultDirection direction, std::uint32_t frames)
    : injector_(injector),
      direction_(direction),
      memory_(std::make_unique_for_overwrite<std::byte[]>(std::size_t{frames} * kMaxFrameBytes)) {
  free_.reserve(frames);
  lent_.reserve(frames);
  held_.reserve(frames);
  for (std::uint32_t i = frames; i > 0; --i) free_.push_back(i - 1);
}

std::span<std::byte> FaultLine::memory(const Held& held) const {
  return {memory_.get() + std::size_t{held.buffer} * kMaxFrameBytes, held.size};
}

void FaultLine::hold(const Frame& frame, Qpn flow, Instant due, std::uint32_t later_packets) {
  if (free_.empty() || frame.bytes.size() > kMaxFrameBytes) {
    ++overflows_;
    return;
  }
  const Held held{.buffer = free_.back(),
                  .size = static_cast<std::uint32_t>(frame.bytes.size()),
                  .to = frame.to,
                  .flow = flow,
                  .later_packets = later_packets,
                  .due = due,
                  .order = order_++};
  free_.pop_back();
  std::memcpy(memory(held).data(), frame.bytes.data(), held.size);
  held_.push_back(held);
}

void FaultLine::count_passage(Qpn flow, Instant now) {
  for (Held& held : held_) {
    if (held.later_packets == 0 || held.flow != flow) continue;
    if (--held.later_packets == 0) held.due = std::min(held.due, now);
  }
}

std::size_t FaultLine::first_due(Instant now) const {
  std::size_t first = held_.size();
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].due > now) continue;
    if (first == held_.size() ||
        std::tie(held_[i].due, held_[i].order) < std::tie(held_[first].due, held_[first].order))
      first = i;
  }
  return first;
}

void FaultLine::remove(std::size_t index) {
  held_[index] = held_.back();
  held_.pop_back();
}

void FaultLine::recycle() {
  free_.insert(free_.end(), lent_.begin(), lent_.end());
  lent_.clear();
}

Instant FaultLine::next_deadline() const {
  Instant earliest = kNever;
  for (const Held& held : held_) earliest = std::min(earliest, held.due);
  return earliest;
}

void FaultLine::forget(const void* to) {
  for (std::size_t i = held_.size(); i > 0; --i) {
    if (held_[i - 1].to != to) continue;
    free_.push_back(held_[i - 1].buffer);
    remove(i - 1);
  }
}

}  // namespace roci
