// The two sides of a ring. What the other side writes is checked; what this side needs to know is private to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "drivers/cable/layout.h"

namespace roci::cable {

inline RingHeader& ring_header(std::byte* ring) { return *reinterpret_cast<RingHeader*>(ring); }
inline std::byte* ring_slot(std::byte* ring, std::uint32_t index) {
  return ring + kPageBytes + (index & (kSlots - 1)) * kSlotBytes;
}
inline SlotHeader& slot_header(std::byte* slot) { return *reinterpret_cast<SlotHeader*>(slot); }

/// Owner: the sending end's worker.
class Producer {
 public:
  bool attached() const { return ring_ != nullptr; }
  std::byte* memory() const { return ring_; }

  /// Takes over zeroed memory. `first_sequence` must differ from that of earlier users of the same ring.
  void attach(std::byte* ring, std::uint32_t own_epoch, std::uint32_t peer_epoch, std::uint32_t first_sequence) {
    ring_ = ring;
    first_sequence_ = first_sequence;
    produced_ = consumed_ = 0;
    RingHeader& header = ring_header(ring);
    header.consumed.store(0, std::memory_order_relaxed);
    header.first_sequence.store(first_sequence, std::memory_order_relaxed);
    header.consumer_epoch.store(peer_epoch, std::memory_order_relaxed);
    header.producer_epoch.store(own_epoch, std::memory_order_release);
  }
  void detach() { ring_ = nullptr; }

  /// Frames that there is room for, up to `wanted`.
  std::uint32_t room(std::uint32_t wanted) {
    if (kSlots - (produced_ - consumed_) < wanted) refresh();
    const std::uint32_t room = kSlots - (produced_ - consumed_);
    return room < wanted ? room : wanted;
  }
  /// Buffer of the n-th frame from now.
  std::byte* frame(std::uint32_t n) const { return ring_slot(ring_, produced_ + n) + kFrameOffset; }
  /// Sends the next frame, which is in its buffer.
  void publish(std::uint32_t frame_bytes) {
    SlotHeader& slot = slot_header(ring_slot(ring_, produced_));
    slot.frame_bytes = frame_bytes;
    slot.sequence.store(first_sequence_ + produced_, std::memory_order_release);
    ++produced_;
  }

  /// True if the peer has taken everything. Reads the peer's cache line.
  bool all_consumed() {
    refresh();
    return produced_ == consumed_;
  }
  /// The peer has told of more frames than were sent: it is not to be trusted.
  bool broken() const { return broken_; }

 private:
  void refresh() {
    const std::uint32_t consumed = ring_header(ring_).consumed.load(std::memory_order_acquire);
    if (produced_ - consumed > kSlots)
      broken_ = true;
    else
      consumed_ = consumed;
  }

  std::byte* ring_ = nullptr;
  std::uint32_t first_sequence_ = 0;
  std::uint32_t produced_ = 0;
  std::uint32_t consumed_ = 0;  ///< as last seen
  bool broken_ = false;
};

/// Owner: the receiving end's worker.
class Consumer {
 public:
  bool attached() const { return ring_ != nullptr; }
  std::byte* memory() const { return ring_; }

  void attach(std::byte* ring) {
    ring_ = ring;
    next_sequence_ = ring_header(ring).first_sequence.load(std::memory_order_acquire);
    taken_ = 0;
  }
  void detach() { ring_ = nullptr; }

  /// Takes the next frame; false if there is none. `frame->size` is 0 if the slot makes no sense.
  bool take(RxFrame* frame) {
    std::byte* slot = ring_slot(ring_, taken_);
    const SlotHeader& header = slot_header(slot);
    if (header.sequence.load(std::memory_order_acquire) != next_sequence_) return false;
    const std::uint32_t bytes = header.frame_bytes;
    frame->data = slot + kFrameOffset;
    frame->size = bytes <= kMaxFrameBytes ? bytes : 0;
    ++next_sequence_;
    ++taken_;
    __builtin_prefetch(ring_slot(ring_, taken_ + 1));
    __builtin_prefetch(ring_slot(ring_, taken_ + 1) + 64);
    return true;
  }
  bool empty() const {
    return slot_header(ring_slot(ring_, taken_)).sequence.load(std::memory_order_acquire) != next_sequence_;
  }
  /// Gives the slots of all frames taken back to the producer.
  void release() { ring_header(ring_).consumed.store(taken_, std::memory_order_release); }

 private:
  std::byte* ring_ = nullptr;
  std::uint32_t next_sequence_ = 0;
  std::uint32_t taken_ = 0;
};

}  // namespace roci::cable
