// A constant rate, and a window if one is set: for comparisons and for tests of what obeys an algorithm.
#pragma once

#include "cc/congestion_control.h"
#include "cc/options.h"

namespace roci {

struct FixedParameters {
  std::uint64_t rate_bps = 0;      ///< of bytes on the wire
  std::uint64_t window_bytes = 0;  ///< 0: none
};

/// Owner: worker.
class Fixed final : public CongestionControl {
 public:
  /// `parameters` outlives this.
  explicit Fixed(const FixedParameters& parameters) : parameters_(parameters) {}

  std::uint32_t needs() const override { return 0; }
  void start(const CcPath& path, Instant now, CcOut& out) override;
  State state() const override;

 private:
  const FixedParameters& parameters_;
};

extern const CcAlgorithm kFixedAlgorithm;

}  // namespace roci
