#include "drivers/fabric/buffer.h"

#include <algorithm>
#include <bit>

#include "stack/base/assert.h"

namespace roci::fabric {

std::int64_t SharedBuffer::shared_capacity(const BufferConfig& config, std::uint8_t lossless,
                                           std::span<const std::uint64_t> headroom_bytes,
                                           std::uint32_t max_frame_bytes) {
  std::int64_t left = static_cast<std::int64_t>(config.bytes);
  for (const std::uint64_t headroom : headroom_bytes)
    left -= std::popcount(lossless) * static_cast<std::int64_t>(headroom + config.reserved_bytes + max_frame_bytes);
  return left;
}

SharedBuffer::SharedBuffer(const BufferConfig& config, std::uint8_t lossless,
                           std::span<const std::uint64_t> headroom_bytes, std::uint32_t max_frame_bytes)
    : config_(config),
      lossless_(lossless),
      shared_capacity_(shared_capacity(config, lossless, headroom_bytes, max_frame_bytes)),
      headroom_bytes_(headroom_bytes.begin(), headroom_bytes.end()),
      groups_(headroom_bytes.size() * egress::kPriorities) {
  ROCI_ASSERT(shared_capacity_ > 0);
}

Admission SharedBuffer::admit(unsigned port, unsigned priority, std::uint32_t bytes, std::uint64_t queue_bytes) {
  PriorityGroup& group = groups_[port * egress::kPriorities + priority];
  const bool lossless = (lossless_ >> priority & 1) != 0;
  const Admission admission = lossless ? admit_lossless(port, group, bytes) : admit_lossy(group, bytes, queue_bytes);
  if (admission <= Admission::kTakenXoff) used_ += bytes;
  ROCI_DEBUG_ASSERT(used_ <= config_.bytes);
  return admission;
}

Admission SharedBuffer::admit_lossless(unsigned port, PriorityGroup& group, std::uint32_t bytes) {
  const std::uint32_t reserved = std::min(bytes, config_.reserved_bytes - group.reserved);
  const std::uint32_t rest = bytes - reserved;
  if (!group.xoff || group.shared + rest <= threshold()) {
    group.shared += rest;
    shared_used_ += rest;
  } else if (group.headroom + rest <= headroom_bytes_[port]) {
    group.headroom += rest;
  } else {
    return Admission::kNoHeadroom;
  }
  group.reserved += reserved;
  if (group.xoff || group.shared <= threshold()) return Admission::kTaken;
  group.xoff = true;
  return Admission::kTakenXoff;
}

Admission SharedBuffer::admit_lossy(PriorityGroup& group, std::uint32_t bytes, std::uint64_t queue_bytes) {
  if (static_cast<std::int64_t>(queue_bytes + bytes) > threshold(config_.lossy_alpha)) return Admission::kQueueTooLong;
  if (shared_used_ + bytes > shared_capacity_) return Admission::kBufferFull;
  group.shared += bytes;
  shared_used_ += bytes;
  return Admission::kTaken;
}

bool SharedBuffer::release(unsigned port, unsigned priority, std::uint32_t bytes) {
  PriorityGroup& group = groups_[port * egress::kPriorities + priority];
  ROCI_DEBUG_ASSERT(bytes <= group.bytes());
  used_ -= bytes;
  const std::uint32_t headroom = std::min(bytes, group.headroom);
  group.headroom -= headroom;
  const std::int64_t shared = std::min<std::int64_t>(bytes - headroom, group.shared);
  group.shared -= shared;
  shared_used_ -= shared;
  group.reserved -= bytes - headroom - static_cast<std::uint32_t>(shared);
  if (!group.xoff || group.headroom != 0) return false;
  if (group.shared != 0 && group.shared + config_.xon_offset_bytes > threshold()) return false;
  group.xoff = false;
  return true;
}

}  // namespace roci::fabric
