// Frames on their way from the worker to the thread that writes them: a bounded ring of bytes, one writer, one reader.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace roci {

enum class CaptureDirection : std::uint32_t { kInbound = 1, kOutbound = 2 };  ///< values of pcapng's epb_flags

/// What stands in the ring before a frame's bytes.
struct CapturedFrame {
  std::uint64_t wall_ns;  ///< since 1970
  std::uint32_t bytes;
  CaptureDirection direction;
};
static_assert(sizeof(CapturedFrame) == 16);

class FrameRing {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;

  FrameRing()
      : memory_(static_cast<std::byte*>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~FrameRing() {
    if (is_open()) munmap(memory_, kBytes);
  }
  FrameRing(const FrameRing&) = delete;
  FrameRing& operator=(const FrameRing&) = delete;

  bool is_open() const { return memory_ != MAP_FAILED; }

  /// Worker: false if there is no room; the frame is not kept.
  bool push(const CapturedFrame& header, const std::byte* frame) {
    const std::size_t needed = footprint(header.bytes);
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (kBytes - (tail - head_seen_) < needed) {
      head_seen_ = head_.load(std::memory_order_acquire);
      if (kBytes - (tail - head_seen_) < needed) return false;
    }
    put(tail, &header, sizeof header);
    put(tail + sizeof header, frame, header.bytes);
    tail_.store(tail + needed, std::memory_order_release);
    return true;
  }

  /// Writing thread: takes the oldest frame into `frame`, which has room for any; false if there is none.
  bool pop(CapturedFrame* header, std::span<std::byte> frame) {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;
    get(head, header, sizeof *header);
    get(head + sizeof *header, frame.data(), header->bytes);
    head_.store(head + footprint(header->bytes), std::memory_order_release);
    return true;
  }

 private:
  static std::size_t footprint(std::uint32_t bytes) { return (sizeof(CapturedFrame) + bytes + 7) / 8 * 8; }

  void put(std::size_t at, const void* from, std::size_t bytes) {
    const std::size_t offset = at % kBytes;
    const std::size_t first = bytes < kBytes - offset ? bytes : kBytes - offset;
    std::memcpy(memory_ + offset, from, first);
    std::memcpy(memory_, static_cast<const std::byte*>(from) + first, bytes - first);
  }
  void get(std::size_t at, void* to, std::size_t bytes) const {
    const std::size_t offset = at % kBytes;
    const std::size_t first = bytes < kBytes - offset ? bytes : kBytes - offset;
    std::memcpy(to, memory_ + offset, first);
    std::memcpy(static_cast<std::byte*>(to) + first, memory_, bytes - first);
  }

  std::byte* memory_;
  alignas(64) std::atomic<std::size_t> tail_{0};  ///< worker writes
  std::size_t head_seen_ = 0;
  alignas(64) std::atomic<std::size_t> head_{0};  ///< writing thread writes
};

}  // namespace roci
