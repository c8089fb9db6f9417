// Frames of one priority that wait at one port.
#pragma once

#include <cstdint>
#include <vector>

#include "drivers/fabric/frame.h"
#include "drivers/fabric/queue_statistics.h"

namespace roci::fabric {

/// In order of arrival, or round robin: a frame from each ingress port in turn, each port's in order. Owner: one
/// thread.
class EgressQueue {
 public:
  /// It has been empty since `counted_since`. `lanes`: 1, or the number of ingress ports.
  EgressQueue(std::uint32_t lanes, Instant counted_since) : lanes_(lanes), statistics_(counted_since) {}

  bool empty() const { return bytes_ == 0; }
  std::uint64_t bytes() const { return bytes_; }

  void push(Frame* frame) {
    bytes_ += frame->frame_bytes;
    const std::uint32_t number = lanes_.size() == 1 ? 0 : frame->ingress_port;
    Lane& lane = lanes_[number];
    if (lane.frames.empty()) append(number);
    lane.frames.push(frame);
  }
  /// The one that pop() takes; not of an empty queue.
  const Frame* front() const { return lanes_[head_].frames.front(); }
  Frame* pop() {
    const std::uint32_t number = head_;
    Lane& lane = lanes_[number];
    head_ = lane.next;
    Frame* frame = lane.frames.pop();
    bytes_ -= frame->frame_bytes;
    if (!lane.frames.empty()) append(number);
    if (head_ != kNone) __builtin_prefetch(front());
    return frame;
  }

  QueueStatistics& statistics() { return statistics_; }
  const QueueStatistics& statistics() const { return statistics_; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Lane {
    FrameFifo frames;
    std::uint32_t next = kNone;  ///< whose turn is after this one's
  };

  void append(std::uint32_t number) {
    lanes_[number].next = kNone;
    (head_ == kNone ? head_ : lanes_[tail_].next) = number;
    tail_ = number;
  }

  std::uint64_t bytes_ = 0;
  std::uint32_t head_ = kNone;
  std::uint32_t tail_ = kNone;
  std::vector<Lane> lanes_;
  QueueStatistics statistics_;
};

}  // namespace roci::fabric
