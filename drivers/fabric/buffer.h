// The packet memory that all ports of a switch share, and who may use how much of it.
//
// It is charged to the port and priority (the priority group, PG) by which a frame came in. A PG fills its reserve
// first, then the shared part, up to the dynamic threshold alpha * (what is left of the shared part) (Choudhury and
// Hahne, 1998). A lossless PG that passes the threshold calls for XOFF, and what still comes goes to its headroom. The
// frame that passes the threshold is always taken in; for it, each lossless PG has a frame's worth set aside.
// A lossy frame is dropped when its egress queue has reached the same kind of threshold.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "stack/egress/settings.h"

namespace roci::fabric {

struct BufferConfig {
  std::uint64_t bytes = 32'000'000;
  std::uint32_t reserved_bytes = 4'096;    ///< of each lossless PG
  double alpha = 1;                        ///< of lossless PGs
  double lossy_alpha = 1;                  ///< of lossy egress queues
  std::uint32_t xon_offset_bytes = 3'072;  ///< XON comes this far below the threshold
};

enum class Admission : std::uint8_t {
  kTaken,
  kTakenXoff,     ///< and the PG is to be stopped
  kNoHeadroom,    ///< dropped: a lossless PG has filled its headroom
  kQueueTooLong,  ///< dropped: the lossy egress queue is at its threshold
  kBufferFull,    ///< dropped: a lossy frame, and nothing is left of the shared part
};

/// All bytes are of frames without FCS. Owner: one thread.
class SharedBuffer {
 public:
  /// `headroom_bytes[p]`: of each lossless PG of port p. `max_frame_bytes`: of the longest frame.
  SharedBuffer(const BufferConfig& config, std::uint8_t lossless, std::span<const std::uint64_t> headroom_bytes,
               std::uint32_t max_frame_bytes);

  /// What is left of the memory for sharing; 0 or less is a configuration that cannot be used.
  static std::int64_t shared_capacity(const BufferConfig& config, std::uint8_t lossless,
                                      std::span<const std::uint64_t> headroom_bytes, std::uint32_t max_frame_bytes);

  /// A frame came in by `port` and wants to go to an egress queue of `queue_bytes`.
  Admission admit(unsigned port, unsigned priority, std::uint32_t bytes, std::uint64_t queue_bytes);
  /// True if a frame that came in by `port` and went at once, to an empty egress queue, would be taken in, and all be
  /// as if it had not been.
  bool passes(unsigned port, unsigned priority, std::uint32_t bytes) const {
    const PriorityGroup& group = groups_[port * egress::kPriorities + priority];
    const bool lossless = (lossless_ >> priority & 1) != 0;
    if (!lossless) return bytes <= threshold(config_.lossy_alpha) && shared_used_ + bytes <= shared_capacity_;
    const std::uint32_t rest = bytes - std::min(bytes, config_.reserved_bytes - group.reserved);
    return !group.xoff && group.shared + rest <= threshold(config_.alpha, shared_used_ + rest);
  }
  /// A frame that came in by `port` is gone. True: the PG, which was stopped, may go on.
  bool release(unsigned port, unsigned priority, std::uint32_t bytes);

  std::int64_t shared_capacity() const { return shared_capacity_; }
  /// T of lossless PGs.
  std::int64_t threshold() const { return threshold(config_.alpha); }
  std::uint64_t used_bytes() const { return used_; }
  std::int64_t shared_used_bytes() const { return shared_used_; }

  struct PriorityGroup {
    std::uint32_t reserved = 0;  ///< of its reserve, used
    std::uint32_t headroom = 0;
    std::int64_t shared = 0;
    bool xoff = false;
    std::uint64_t bytes() const { return std::uint64_t{reserved} + headroom + static_cast<std::uint64_t>(shared); }
  };
  const PriorityGroup& group(unsigned port, unsigned priority) const {
    return groups_[port * egress::kPriorities + priority];
  }

 private:
  std::int64_t threshold(double alpha) const { return threshold(alpha, shared_used_); }
  std::int64_t threshold(double alpha, std::int64_t shared_used) const {
    const std::int64_t left = shared_capacity_ - shared_used;
    return left <= 0 ? 0 : static_cast<std::int64_t>(alpha * static_cast<double>(left));
  }
  Admission admit_lossless(unsigned port, PriorityGroup& group, std::uint32_t bytes);
  Admission admit_lossy(PriorityGroup& group, std::uint32_t bytes, std::uint64_t queue_bytes);

  const BufferConfig config_;
  const std::uint8_t lossless_;
  const std::int64_t shared_capacity_;
  std::vector<std::uint64_t> headroom_bytes_;
  std::vector<PriorityGroup> groups_;
  std::int64_t shared_used_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace roci::fabric
