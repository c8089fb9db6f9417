#include "drivers/fabric/frame.h"

#include <new>

#include "stack/base/assert.h"

namespace roci::fabric {
namespace {

constexpr std::size_t kCacheLineBytes = 64;
constexpr std::size_t kFramesPerSlab = 64;

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + kCacheLineBytes - 1) & ~(kCacheLineBytes - 1); }

}  // namespace

FramePool::FramePool(std::uint32_t large_bytes) : capacity_{kSmallBytes, large_bytes} {
  ROCI_ASSERT(large_bytes > kSmallBytes);
}

void FramePool::grow(bool large) {
  const std::uint32_t capacity = capacity_[large];
  const std::size_t stride = round_up(sizeof(Frame)) + round_up(capacity);
  const std::size_t slab_bytes = kFramesPerSlab * stride + kCacheLineBytes;
  slabs_.push_back(std::make_unique_for_overwrite<std::byte[]>(slab_bytes));
  memory_bytes_ += slab_bytes;
  void* start = slabs_.back().get();
  std::size_t space = slab_bytes;
  std::byte* slab = static_cast<std::byte*>(std::align(kCacheLineBytes, kFramesPerSlab * stride, start, space));
  for (std::size_t i = kFramesPerSlab; i-- > 0;) {
    std::byte* at = slab + i * stride;
    free_[large] = new (at) Frame{.next = free_[large], .bytes = at + round_up(sizeof(Frame)), .capacity = capacity};
  }
}

}  // namespace roci::fabric
