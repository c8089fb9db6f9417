// How long a queue was for how long.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "stack/base/types.h"

namespace roci::fabric {

/// Weighted by time. Lengths are kept in buckets of 1/64 of their size, exactly below 128 bytes. Owner: one thread.
class QueueStatistics {
 public:
  /// Of a queue that is empty from `since` on.
  explicit QueueStatistics(Instant since = {}) : since_(since), changed_(since) {}

  /// The queue has another length from `now` on.
  void change(std::uint64_t bytes, Instant now) {
    account(now);
    bytes_ = bytes;
    if (bytes > max_bytes_) max_bytes_ = bytes;
  }
  /// A frame has come and gone at once.
  void touch(std::uint64_t bytes) {
    if (bytes_ + bytes > max_bytes_) max_bytes_ = bytes_ + bytes;
  }
  /// Forgets all but the present length: the end of a warm-up.
  void reset(Instant now);

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t max_bytes() const { return max_bytes_; }
  double mean_bytes(Instant now) const;
  /// The length that the queue did not exceed for this part (0..1) of the time, rounded up to the end of its bucket.
  std::uint64_t quantile_bytes(double part, Instant now) const;

 private:
  static constexpr unsigned kMantissaBits = 6;
  static constexpr std::uint64_t kSteps = 1u << kMantissaBits;
  static constexpr unsigned kMaxBits = 36;  // 64 GB
  static constexpr std::size_t kBuckets = (kMaxBits - kMantissaBits + 1) * kSteps;

  static constexpr std::size_t bucket_of(std::uint64_t bytes) {
    if (bytes < 2 * kSteps) return bytes;
    const unsigned shift = static_cast<unsigned>(std::bit_width(bytes)) - kMantissaBits - 1;
    return shift * kSteps + (bytes >> shift);
  }
  /// The greatest length in `bucket`.
  static constexpr std::uint64_t end_of(std::size_t bucket) {
    if (bucket < 2 * kSteps) return bucket;
    const auto shift = static_cast<unsigned>(bucket / kSteps - 1);
    return ((kSteps + bucket % kSteps + 1) << shift) - 1;
  }
  void account(Instant now) {
    const std::int64_t time = (now - changed_).ps;
    changed_ = now;
    time_ps_[bucket_of(bytes_)] += time;
    byte_ps_ += static_cast<Wide>(bytes_) * static_cast<std::uint64_t>(time);
  }

  __extension__ using Wide = unsigned __int128;

  std::uint64_t bytes_ = 0;
  std::uint64_t max_bytes_ = 0;
  Instant since_;
  Instant changed_;
  Wide byte_ps_ = 0;
  std::array<std::int64_t, kBuckets> time_ps_{};
};

}  // namespace roci::fabric
