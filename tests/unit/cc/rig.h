// An algorithm made by name, with events by hand.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string_view>

#include "cc/congestion_control.h"
#include "cc/registry.h"

namespace roci {

inline constexpr std::uint64_t kGbps = 1'000'000'000;

/// Times are in microseconds since the start of the QP.
class CcRig {
 public:
  explicit CcRig(std::string_view text, std::uint64_t line_rate_bps = 100 * kGbps) {
    Parsed<CcSpec> parsed = parse_cc(text);
    EXPECT_EQ(parsed.wrong, "") << text;
    spec_ = parsed.value;
    algorithm_ = spec_.make(spec_.parameters.get(), storage_.data());
    algorithm_->start({.line_rate_bps = line_rate_bps, .mtu_bytes = 1024}, Instant{}, out_);
  }

  static Instant at(double us) { return Instant{static_cast<std::int64_t>(us * 1e6)}; }

  /// Deadlines until then, each at its time.
  void run_to(Instant now) {
    while (out_.deadline <= now) algorithm_->on_timer(out_.deadline, out_);
  }
  void run_to(double us) { run_to(at(us)); }
  void cnp(double us) {
    run_to(us);
    algorithm_->on_cnp(at(us), out_);
  }
  void sent(double us, std::uint32_t bytes) {
    run_to(us);
    algorithm_->on_send({.now = at(us), .bytes = bytes}, out_);
  }

  std::uint64_t current() const { return algorithm_->state().current_rate_bps; }
  std::uint64_t target() const { return algorithm_->state().target_rate_bps; }
  double alpha() const { return algorithm_->state().alpha; }

  CongestionControl& algorithm() { return *algorithm_; }
  CcOut& out() { return out_; }
  const CcSpec& spec() const { return spec_; }

 private:
  CcSpec spec_;
  alignas(std::max_align_t) std::array<std::byte, CongestionControl::kMaxBytes> storage_;
  CongestionControl* algorithm_ = nullptr;
  CcOut out_;
};

}  // namespace roci
