// A frame inside the fabric: a handle with its bytes behind it. Frames come from a pool, move by pointer from queue to
// queue, and are never copied.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "drivers/fabric/large_pages.h"
#include "stack/base/types.h"
#include "stack/egress/pacer.h"

namespace roci::fabric {

enum class FrameKind : std::uint8_t {
  kUnclassified,  ///< classify() has not seen it
  kForwarded,
  kPfc,  ///< meant for the port that receives it
};

/// What the frames of a network carry.
enum class Payload : std::uint8_t {
  kCarried,
  kElided,  ///< lengths only: PortAttributes::elides_payload
};

/// Owner: whoever holds the pointer; one at a time.
struct Frame {
  static constexpr std::uint32_t kNowhere = UINT32_MAX;
  /// The shortest frame on a wire, without FCS (IEEE 802.3).
  static constexpr std::uint32_t kMinBytes = 60;

  Frame* next = nullptr;
  std::byte* bytes = nullptr;     ///< from the Ethernet header on
  std::uint32_t capacity = 0;     ///< of `bytes`
  std::uint32_t frame_bytes = 0;  ///< on the wire, without FCS
  /// At the start of the frame, in memory: fewer than frame_bytes where the payload is elided, but all headers.
  std::uint32_t stored_bytes = 0;
  std::uint32_t source = kNowhere;       ///< number of the host, for the driver's own use
  std::uint32_t destination = kNowhere;  ///< number of the host, which routes it; nowhere is dropped
  std::uint32_t flow_hash = 0;           ///< classify() sets this and what follows
  std::uint16_t ingress_port = 0;        ///< of the switch that holds it
  FrameKind kind = FrameKind::kUnclassified;
  std::uint8_t priority = 0;
  std::uint8_t l3_offset = 0;  ///< of the IP header; 0 if there is none
  bool is_v4 = false;
  std::uint64_t tag = 0;  ///< the driver's, as is the next
  Instant arrives{};      ///< at the end of the link that it is on

  /// Preamble, FCS and gap included.
  std::uint32_t wire_bytes() const { return std::max(frame_bytes, kMinBytes) + egress::kWireOverheadBytes; }
};

/// First in, first out, through the frames themselves. Does not own them.
class FrameFifo {
 public:
  bool empty() const { return head_ == nullptr; }
  Frame* front() const { return head_; }
  void push(Frame* frame) {
    frame->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = frame;
    tail_ = frame;
  }
  Frame* pop() {
    Frame* frame = head_;
    if (frame != nullptr) head_ = frame->next;
    return frame;
  }

 private:
  Frame* head_ = nullptr;
  Frame* tail_ = nullptr;
};

/// Grows when it is empty and never shrinks, so a steady load allocates nothing. Two sizes: acknowledgements, CNPs and
/// frames with elided payload take little memory. Owner: one thread; outlives its frames.
class FramePool {
 public:
  static constexpr std::uint32_t kSmallBytes = 192;

  /// `large_bytes`: the longest frame.
  explicit FramePool(std::uint32_t large_bytes);
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  /// A frame with room for `bytes`, at most large_bytes; everything else as in a new one.
  Frame* allocate(std::uint32_t bytes) {
    const bool large = bytes > kSmallBytes;
    Frame*& free = free_[large];
    if (free == nullptr) [[unlikely]]
      grow(large);
    Frame* frame = free;
    free = frame->next;
    ++in_use_;
    return frame;
  }
  void free(Frame* frame) {
    Frame*& free = free_[frame->capacity > kSmallBytes];
    *frame = Frame{.next = free, .bytes = frame->bytes, .capacity = frame->capacity};
    free = frame;
    --in_use_;
  }

  std::uint32_t large_bytes() const { return capacity_[1]; }
  /// Allocated and not given back.
  std::size_t in_use() const { return in_use_; }
  std::size_t memory_bytes() const { return memory_bytes_; }

 private:
  void grow(bool large);

  std::array<std::uint32_t, 2> capacity_;
  std::array<Frame*, 2> free_{};
  std::size_t in_use_ = 0;
  std::size_t memory_bytes_ = 0;
  std::array<std::size_t, 2> next_slab_frames_;
  std::vector<LargePages> slabs_;
};

}  // namespace roci::fabric
