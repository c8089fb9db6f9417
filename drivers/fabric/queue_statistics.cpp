#include "drivers/fabric/queue_statistics.h"

#include <algorithm>

namespace roci::fabric {

void QueueStatistics::reset(Instant now) {
  since_ = now;
  changed_ = now;
  max_bytes_ = bytes_;
  byte_ps_ = 0;
  time_ps_ = {};
}

double QueueStatistics::mean_bytes(Instant now) const {
  if (now <= since_) return static_cast<double>(bytes_);
  const Wide total = byte_ps_ + static_cast<Wide>(bytes_) * static_cast<std::uint64_t>((now - changed_).ps);
  return static_cast<double>(total) / static_cast<double>((now - since_).ps);
}

std::uint64_t QueueStatistics::quantile_bytes(double part, Instant now) const {
  const double wanted = part * static_cast<double>((now - since_).ps);
  std::int64_t passed = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    passed += time_ps_[bucket];
    if (bucket == bucket_of(bytes_)) passed += (now - changed_).ps;
    if (passed > 0 && static_cast<double>(passed) >= wanted) return std::min(end_of(bucket), max_bytes_);
  }
  return max_bytes_;
}

}  // namespace roci::fabric
