// DCQCN's reaction point: the rate of a QP that gets CNPs (Zhu et al., Congestion Control for Large-Scale RDMA
// Deployments, SIGCOMM 2015), as in that paper and as NVIDIA's adapters do it.
//
// Event form (the paper): each CNP cuts the rate. Sampled form (NVIDIA): CNPs set flags, which are looked at once in a
// period. Either way the rate then recovers by events of a timer and of a byte counter. The equations are in
// docs/congestion-control.md.
#pragma once

#include <cstdint>

#include "cc/congestion_control.h"
#include "cc/options.h"
#include "stack/base/types.h"

namespace roci {

/// Next to each: the name of its key.
struct DcqcnParameters {
  enum class Form : std::uint8_t { kEvent, kSampled };
  /// What an increase adds to the target rate.
  struct Step {
    std::uint64_t bps = 0;
    bool per_25g = false;  ///< times the line rate / 25 Gb/s
  };

  Form form = Form::kEvent;            ///< form
  std::uint8_t timer_only = 0;         ///< timer_only
  Duration increase_period{};          ///< rpg_time_reset, T
  std::uint64_t byte_counter = 0;      ///< rpg_byte_reset, B; 0 is off
  std::uint32_t threshold = 0;         ///< rpg_threshold, F
  Step additive_step;                  ///< rpg_ai_rate, R_AI
  Step hyper_step;                     ///< rpg_hai_rate, R_HAI
  std::uint8_t gd = 0;                 ///< rpg_gd: a cut is by alpha / 2^(gd - 10)
  std::uint8_t min_dec_fac = 0;        ///< rpg_min_dec_fac: percent of the rate that a cut leaves at least
  std::uint64_t min_rate_bps = 0;      ///< rpg_min_rate
  std::uint64_t max_rate_bps = 0;      ///< rpg_max_rate; 0: the line rate
  std::uint8_t clamp_tgt_rate = 0;     ///< clamp_tgt_rate
  std::uint8_t clamp_after_timer = 0;  ///< clamp_tgt_rate_after_time_inc
  double g = 0;                        ///< dce_tcp_g
  Duration alpha_period{};             ///< dce_tcp_rtt, K
  double initial_alpha = 0;            ///< initial_alpha_value
  Duration monitor_period{};           ///< rate_reduce_monitor_period; sampled form
  std::uint64_t first_cnp_bps = 0;     ///< rate_to_set_on_first_cnp; 0: unchanged
  Duration cnp_interval{};             ///< min_time_between_cnps
  std::uint8_t hyper_multiplier = 0;   ///< hai_multiplier
  std::uint8_t hyper_halving = 0;      ///< hai_halving
  std::uint8_t extra_recovery = 0;     ///< extra_fast_recovery

  static DcqcnParameters paper();
  static DcqcnParameters mlx();
};

/// While the rate is the line rate there is no limiter, and no deadline. Of what is due at one instant the timer comes
/// first, then alpha, then the cut, and last the event that came in. Owner: worker.
class Dcqcn final : public CongestionControl {
 public:
  /// `parameters` outlives this.
  explicit Dcqcn(const DcqcnParameters& parameters) : p_(parameters) {}

  std::uint32_t needs() const override { return kCcCnp | (p_.byte_counter != 0 ? kCcSendEvents : 0u); }
  void start(const CcPath& path, Instant now, CcOut& out) override;
  void on_cnp(Instant now, CcOut& out) override;
  void on_send(const CcSend& send, CcOut& out) override;
  void on_timer(Instant now, CcOut& out) override;
  /// Alpha is that of the newest event.
  State state() const override;

  /// Events since the last cut.
  struct Stages {
    std::uint32_t timer = 0;  ///< iT
    std::uint32_t bytes = 0;  ///< iB
  };
  Stages stages() const { return stages_; }
  bool limited() const { return limited_; }

 private:
  enum class Phase : std::uint8_t { kFastRecovery, kAdditive, kHyper };

  Phase phase() const;
  std::uint64_t step() const;
  /// Hyper increase with halved T and B.
  bool hurries() const;
  std::uint64_t bytes_to_event() const;
  /// Everything that is due by `now`, in order.
  void advance(Instant now);
  void limit();
  void release();
  void cut(Instant at);
  void increase();
  double alpha_at(Instant at) const;
  /// Makes alpha that of the last alpha period that ended by `at`.
  void settle_alpha(Instant at);
  void answer(CcOut& out) const;

  const DcqcnParameters& p_;
  std::uint64_t line_bps_ = 0;
  std::uint64_t max_bps_ = 0;
  std::uint64_t min_bps_ = 0;
  std::uint64_t additive_bps_ = 0;
  std::uint64_t hyper_bps_ = 0;
  std::uint64_t current_bps_ = 0;  ///< Rc
  std::uint64_t target_bps_ = 0;   ///< Rt
  std::uint64_t sent_bytes_ = 0;   ///< since the last event of the byte counter
  double alpha_ = 0;               ///< at alpha_from_
  Instant alpha_from_{};           ///< alpha periods end at whole multiples of K after this
  Instant first_cnp_ = kNever;     ///< monitor periods end at whole multiples after this
  Instant newest_{};
  Instant increase_due_ = kNever;
  Instant cut_due_ = kNever;  ///< sampled form: the end of a monitor period with CNPs
  Stages stages_;
  bool limited_ = false;
  bool alpha_flag_ = false;  ///< sampled form: CNPs since alpha_from_
};

extern const CcAlgorithm kDcqcnAlgorithm;

}  // namespace roci
