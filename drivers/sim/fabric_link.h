// One direction of a link of the simulated fabric: what has left one end and has not arrived at the other.
#pragma once

#include <cstdint>

#include "drivers/fabric/frame.h"
#include "drivers/sim/event_queue.h"
#include "stack/base/types.h"

namespace roci::sim {

/// Where a link ends.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  /// The last bit has arrived at `port`. Takes the frame over.
  virtual void on_arrival(unsigned port, fabric::Frame* frame, Instant now) = 0;
};

/// Sees each frame as its last bit arrives.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  virtual void on_frame(const fabric::Frame& frame, Instant now) = 0;
};

/// Frames arrive in the order in which they were sent, so one event at a time is enough.
class FabricLink final : public EventTarget {
 public:
  explicit FabricLink(EventQueue& events) : events_(events) {}

  /// Before the first frame.
  void connect(FrameReceiver& receiver, unsigned port) {
    receiver_ = &receiver;
    port_ = port;
  }
  /// Null: nobody. Outlives its use.
  void set_observer(LinkObserver* observer) { observer_ = observer; }

  /// Takes the frame over. Arrivals are in order.
  void send(fabric::Frame* frame, Instant arrives) {
    const bool is_first = flight_.empty();
    frame->arrives = arrives;
    flight_.push(frame);
    if (is_first) schedule();
  }

  void on_event(Instant now, std::uint64_t) override {
    fabric::Frame* frame = flight_.pop();
    if (!flight_.empty()) schedule();
    data_frames_ += frame->frame_bytes > fabric::FramePool::kSmallBytes;
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_frame(*frame, now);
    receiver_->on_arrival(port_, frame, now);
  }

  /// Frames that have arrived and are too long for acknowledgements: data.
  std::uint64_t data_frames() const { return data_frames_; }
  /// Gives up what is under way.
  void clear(fabric::FramePool& pool) {
    while (fabric::Frame* frame = flight_.pop()) pool.free(frame);
  }

 private:
  /// The event's argument is the frame, so that the queue has it at hand when the event comes; the event will ask the
  /// frame behind it when that arrives.
  void schedule() {
    const fabric::Frame* front = flight_.front();
    __builtin_prefetch(front->next);
    events_.schedule(front->arrives, *this, reinterpret_cast<std::uint64_t>(front));
  }

  EventQueue& events_;
  FrameReceiver* receiver_ = nullptr;
  LinkObserver* observer_ = nullptr;
  fabric::FrameFifo flight_;
  std::uint64_t data_frames_ = 0;
  unsigned port_ = 0;
};

}  // namespace roci::sim
