#include "drivers/fabric/frame.h"

#include <new>

#include "stack/base/assert.h"

namespace roci::fabric {
namespace {

constexpr std::size_t kCacheLineBytes = 64;
constexpr std::size_t kFirstSlabFrames = 64;
constexpr std::size_t kMostSlabBytes = 8 << 20;

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + kCacheLineBytes - 1) & ~(kCacheLineBytes - 1); }

}  // namespace

FramePool::FramePool(std::uint32_t large_bytes)
    : capacity_{kSmallBytes, large_bytes}, next_slab_frames_{kFirstSlabFrames, kFirstSlabFrames} {
  ROCI_ASSERT(large_bytes > kSmallBytes);
}

/// Each slab is twice as large as the one before it: few of them, and little memory where little is needed.
void FramePool::grow(bool large) {
  const std::uint32_t capacity = capacity_[large];
  const std::size_t stride = round_up(sizeof(Frame)) + round_up(capacity);
  const std::size_t frames = next_slab_frames_[large];
  if (2 * frames * stride <= kMostSlabBytes) next_slab_frames_[large] = 2 * frames;
  slabs_.emplace_back(frames * stride);
  memory_bytes_ += frames * stride;
  std::byte* slab = slabs_.back().bytes().data();
  for (std::size_t i = frames; i-- > 0;) {
    std::byte* at = slab + i * stride;
    free_[large] = new (at) Frame{.next = free_[large], .bytes = at + round_up(sizeof(Frame)), .capacity = capacity};
  }
}

}  // namespace roci::fabric
