#include "cc/dcqcn.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace roci {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kScaleBps = 25'000'000'000;

std::uint64_t scaled(const DcqcnParameters::Step& step, std::uint64_t line_bps) {
  return step.per_25g ? static_cast<std::uint64_t>(Wide{step.bps} * line_bps / kScaleBps) : step.bps;
}

/// By squaring: a decay over any number of periods costs the same few products, and needs no libm.
double power(double base, std::int64_t exponent) {
  double out = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) out *= base;
    base *= base;
  }
  return out;
}

using P = DcqcnParameters;

constexpr std::array<std::string_view, 2> kPresets = {"paper", "mlx"};
constexpr std::array<std::string_view, 2> kForms = {"event", "sampled"};
constexpr std::string_view kPresetKey = "preset";
constexpr double kQ10 = 1024;  // NVIDIA's fractions are in 1024ths

constexpr std::int64_t kLeastPeriodPs = microseconds(1).ps;
constexpr std::int64_t kMostPeriodPs = seconds(10).ps;
constexpr std::uint64_t kLeastStepBps = 100'000;
constexpr std::uint64_t kLeastRateBps = 1000;
constexpr std::uint64_t kMostRateBps = 10'000'000'000'000;
constexpr std::uint64_t kLeastBytes = 1000;
constexpr std::uint64_t kMostBytes = 1'000'000'000'000;

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

/// The place of `word` in `words`, or in words what is wrong.
Parsed<std::size_t> place_in(std::span<const std::string_view> words, std::string_view word) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return {static_cast<std::size_t>(found - words.begin()), {}};
  std::string wrong = quoted(word) + " is not one of";
  for (const std::string_view known : words) wrong += (known == words.front() ? " " : ", ") + std::string(known);
  return {0, wrong + nearest_hint(word, words)};
}

/// Only checked here: read() has seen to it.
struct PresetValue {
  template <class>
  static std::string set(std::string_view text, P*) {
    return place_in(kPresets, text).wrong;
  }
  template <class>
  static std::string show(const P&) {
    return {};
  }
};

struct FormValue {
  template <class>
  static std::string set(std::string_view text, P* parameters) {
    auto place = place_in(kForms, text);
    if (place) parameters->form = static_cast<P::Form>(place.value);
    return std::move(place.wrong);
  }
  template <class>
  static std::string show(const P& parameters) {
    return std::string(kForms[static_cast<std::size_t>(parameters.form)]);
  }
};

template <auto kMember>
struct StepValue {
  template <class>
  static std::string set(std::string_view text, P* parameters) {
    if (std::string wrong = CcRateValue<&P::Step::bps, kLeastStepBps, kMostRateBps>::set(text, &(parameters->*kMember));
        !wrong.empty())
      return wrong;
    (parameters->*kMember).per_25g = false;
    return {};
  }
  template <class>
  static std::string show(const P& parameters) {
    const P::Step& step = parameters.*kMember;
    return rate_text(step.bps) + (step.per_25g ? " for each 25Gbps of line rate" : "");
  }
};

/// A fraction, or as NVIDIA's tools have it a whole number of 1024ths: of what remains if `kRemainder`.
template <auto kMember, bool kRemainder>
struct Q10Value {
  template <class>
  static std::string set(std::string_view text, P* parameters) {
    auto fraction = parse_fraction(text);
    const auto count = parse_count(text);
    if (count && count.value > 1 && count.value < 1024) {
      const auto q10 = static_cast<double>(kRemainder ? 1024 - count.value : count.value);
      fraction = {q10 / kQ10, {}};
    }
    if (!fraction) return fraction.wrong + ", or 2 to 1023 in 1024ths" + (kRemainder ? " of what remains" : "");
    if (kRemainder && fraction.value == 0) return "0 would never change";
    parameters->*kMember = fraction.value;
    return {};
  }
  template <class>
  static std::string show(const P& parameters) {
    auto above = static_cast<std::uint64_t>(parameters.*kMember * kQ10);
    std::uint64_t below = 1024;
    for (; above % 2 == 0 && below > 1; above /= 2) below /= 2;
    return std::to_string(above) + (below == 1 ? "" : '/' + std::to_string(below));
  }
};

template <class Value>
constexpr CcKey<P> key(std::string_view name, std::string_view about) {
  return cc_key<P, Value>(name, about);
}

constexpr auto kKeys = std::to_array<CcKey<P>>({
    key<PresetValue>(kPresetKey, "where the defaults come from: paper, if not given, or mlx"),
    key<FormValue>("form", "event: each CNP cuts; sampled: CNPs set flags that are looked at once a period"),
    key<CcSwitchValue<&P::timer_only>>("timer_only", "1: no byte counter, and stages by the timer alone"),
    key<CcTimeValue<&P::increase_period, kLeastPeriodPs, kMostPeriodPs>>("rpg_time_reset", "T, between timer events"),
    key<CcSizeValue<&P::byte_counter, kLeastBytes, kMostBytes, true>>("rpg_byte_reset",
                                                                      "B, bytes between events of the byte counter"),
    key<CcCountValue<&P::threshold, 1, 31>>("rpg_threshold", "F, events of a kind before the next stage"),
    key<StepValue<&P::additive_step>>("rpg_ai_rate", "R_AI, what additive increase adds"),
    key<StepValue<&P::hyper_step>>("rpg_hai_rate", "R_HAI, what hyper increase adds"),
    key<CcCountValue<&P::gd, 0, 15>>("rpg_gd", "a cut is by alpha / 2^(rpg_gd - 10)"),
    key<CcCountValue<&P::min_dec_fac, 0, 100>>("rpg_min_dec_fac", "percent of the rate that a cut leaves at least"),
    key<CcRateValue<&P::min_rate_bps, kLeastRateBps, kMostRateBps>>("rpg_min_rate", "Rmin"),
    key<CcRateValue<&P::max_rate_bps, kLeastRateBps, kMostRateBps, true>>(
        "rpg_max_rate", "where the limit ends; off: at the line rate"),
    key<CcSwitchValue<&P::clamp_tgt_rate>>("clamp_tgt_rate", "1: each cut copies Rc to Rt"),
    key<CcSwitchValue<&P::clamp_after_timer>>("clamp_tgt_rate_after_time_inc",
                                              "1: a cut does so after timer events, too"),
    key<Q10Value<&P::g, true>>("dce_tcp_g", "g, the weight of a period in alpha"),
    key<CcTimeValue<&P::alpha_period, kLeastPeriodPs, kMostPeriodPs>>("dce_tcp_rtt", "K, the period of alpha"),
    key<Q10Value<&P::initial_alpha, false>>("initial_alpha_value", "alpha at the first CNP"),
    key<CcTimeValue<&P::monitor_period, kLeastPeriodPs, kMostPeriodPs>>("rate_reduce_monitor_period",
                                                                        "between cuts; sampled form"),
    key<CcRateValue<&P::first_cnp_bps, kLeastRateBps, kMostRateBps, true>>(
        "rate_to_set_on_first_cnp", "Rc and Rt when a limit begins; off: unchanged"),
    key<CcTimeValue<&P::cnp_interval, 0, kMostPeriodPs>>("min_time_between_cnps",
                                                         "N, at the receiver, of a QP; 0us: a CNP for each mark"),
    key<CcSwitchValue<&P::hyper_multiplier>>("hai_multiplier", "1: the n-th hyper increase adds n R_HAI"),
    key<CcSwitchValue<&P::hyper_halving>>("hai_halving", "1: T and B are halved in hyper increase"),
    key<CcSwitchValue<&P::extra_recovery>>("extra_fast_recovery",
                                           "1: the first event after a cut divides Rt > 10 Rc by 8"),
});

bool gives(std::span<const CcOption> options, std::string_view name) {
  return std::any_of(options.begin(), options.end(), [&](const CcOption& o) { return o.key == name; });
}

/// What does not go together.
std::string check(std::span<const CcOption> options, const P& parameters) {
  if (parameters.timer_only != 0 && parameters.byte_counter != 0 && gives(options, "rpg_byte_reset"))
    return "timer_only=1 has no byte counter: leave rpg_byte_reset out";
  if (parameters.form == P::Form::kEvent && gives(options, "rate_reduce_monitor_period"))
    return "rate_reduce_monitor_period needs form=sampled";
  if (parameters.max_rate_bps != 0 && parameters.max_rate_bps < parameters.min_rate_bps)
    return "rpg_max_rate is below rpg_min_rate, " + rate_text(parameters.min_rate_bps);
  return {};
}

/// The preset comes first, wherever it stands.
std::string read(std::span<const CcOption> options, P* parameters) {
  const auto preset =
      std::find_if(options.begin(), options.end(), [](const CcOption& o) { return o.key == kPresetKey; });
  *parameters = preset != options.end() && preset->value == kPresets[1] ? P::mlx() : P::paper();
  for (const CcOption& option : options)
    if (std::string wrong = cc_set<P>(option, kKeys, parameters); !wrong.empty()) return wrong;
  if (std::string wrong = check(options, *parameters); !wrong.empty()) return wrong;
  if (parameters->timer_only != 0) parameters->byte_counter = 0;
  return {};
}

std::string configure(std::span<const CcOption> options, CcSpec* spec) {
  const auto parameters = std::make_shared<P>();
  if (std::string wrong = read(options, parameters.get()); !wrong.empty()) return wrong;
  spec->make = [](const void* p, std::byte* storage) -> CongestionControl* {
    return new (storage) Dcqcn(*static_cast<const P*>(p));
  };
  spec->parameters = parameters;
  spec->cnp_interval = parameters->cnp_interval;
  spec->sends_cnps = true;
  return {};
}

std::vector<CcKeyHelp> help() { return cc_key_help<P>(kKeys, std::array{P::paper(), P::mlx()}); }

}  // namespace

static_assert(sizeof(Dcqcn) <= CongestionControl::kMaxBytes);

constinit const CcAlgorithm kDcqcnAlgorithm = {.name = "dcqcn",
                                               .about = "a rate that CNPs cut and time and bytes restore",
                                               .presets = kPresets,
                                               .configure = configure,
                                               .keys = help};

DcqcnParameters DcqcnParameters::paper() {
  return {.form = Form::kEvent,
          .increase_period = microseconds(55),
          .byte_counter = 10'000'000,
          .threshold = 5,
          .additive_step = {40'000'000},
          .hyper_step = {400'000'000},
          .gd = 11,
          .min_rate_bps = 100'000'000,
          .clamp_tgt_rate = 1,
          .g = 1.0 / 256,
          .alpha_period = microseconds(55),
          .initial_alpha = 1,
          .monitor_period = microseconds(50),
          .cnp_interval = microseconds(50)};
}

DcqcnParameters DcqcnParameters::mlx() {
  return {.form = Form::kSampled,
          .increase_period = microseconds(300),
          .byte_counter = 32'767 * 64,
          .threshold = 1,
          .additive_step = {5'000'000, true},
          .hyper_step = {50'000'000, true},
          .gd = 11,
          .min_dec_fac = 50,
          .min_rate_bps = 1'000'000,
          .clamp_after_timer = 1,
          .g = 5 / kQ10,
          .alpha_period = microseconds(1),
          .initial_alpha = 1023 / kQ10,
          .monitor_period = microseconds(4),
          .cnp_interval = microseconds(4)};
}

void Dcqcn::start(const CcPath& path, Instant now, CcOut& out) {
  line_bps_ = path.line_rate_bps;
  max_bps_ = p_.max_rate_bps == 0 ? line_bps_ : std::min(p_.max_rate_bps, line_bps_);
  min_bps_ = std::min(p_.min_rate_bps, max_bps_);
  additive_bps_ = scaled(p_.additive_step, line_bps_);
  hyper_bps_ = scaled(p_.hyper_step, line_bps_);
  newest_ = now;
  release();
  answer(out);
}

void Dcqcn::on_cnp(Instant now, CcOut& out) {
  advance(now);
  const bool first = first_cnp_ == kNever;
  if (first) {
    first_cnp_ = alpha_from_ = now;
    alpha_ = p_.initial_alpha;
  }
  if (!limited_) limit();
  settle_alpha(now);
  if (p_.form == DcqcnParameters::Form::kEvent) {
    cut(now);
    alpha_ = (1 - p_.g) * alpha_ + p_.g;
    alpha_from_ = now;
  } else {
    alpha_flag_ = !first;
    if (cut_due_ == kNever) {
      const std::int64_t periods = (now - first_cnp_).ps / p_.monitor_period.ps + 1;
      cut_due_ = first_cnp_ + p_.monitor_period * periods;
    }
  }
  answer(out);
}

void Dcqcn::on_send(const CcSend& send, CcOut& out) {
  if (!limited_ || p_.byte_counter == 0) return;
  advance(send.now);
  for (sent_bytes_ += send.bytes; limited_ && sent_bytes_ >= bytes_to_event();) {
    sent_bytes_ -= bytes_to_event();
    ++stages_.bytes;
    increase();
  }
  answer(out);
}

void Dcqcn::on_timer(Instant now, CcOut& out) {
  advance(now);
  answer(out);
}

void Dcqcn::advance(Instant now) {
  newest_ = now;
  for (Instant due = std::min(increase_due_, cut_due_); due <= now; due = std::min(increase_due_, cut_due_)) {
    if (increase_due_ > cut_due_) {
      settle_alpha(due);
      cut_due_ = kNever;
      cut(due);
      continue;
    }
    ++stages_.timer;
    increase_due_ = due + (hurries() ? Duration{p_.increase_period.ps / 2} : p_.increase_period);
    increase();
  }
}

void Dcqcn::limit() {
  limited_ = true;
  current_bps_ = p_.first_cnp_bps == 0 ? max_bps_ : std::clamp(p_.first_cnp_bps, min_bps_, max_bps_);
  target_bps_ = current_bps_;
}

void Dcqcn::release() {
  limited_ = false;
  current_bps_ = target_bps_ = line_bps_;
  increase_due_ = kNever;
}

void Dcqcn::cut(Instant at) {
  const bool increased = stages_.bytes > 0 || (p_.clamp_after_timer != 0 && stages_.timer > 0);
  if (p_.clamp_tgt_rate != 0 || increased) target_bps_ = current_bps_;
  constexpr int kWhole = 10;  // rpg_gd of a cut by alpha
  const double share = p_.gd >= kWhole ? alpha_ / (1 << (p_.gd - kWhole)) : alpha_ * (1 << (kWhole - p_.gd));
  const auto loss = static_cast<std::uint64_t>(static_cast<double>(current_bps_) * std::min(share, 1.0));
  current_bps_ = std::max({min_bps_, current_bps_ - std::min(loss, current_bps_), current_bps_ * p_.min_dec_fac / 100});
  stages_ = {};
  sent_bytes_ = 0;
  increase_due_ = at + p_.increase_period;
}

Dcqcn::Phase Dcqcn::phase() const {
  const auto [least, most] = std::minmax(stages_.timer, stages_.bytes);
  if (p_.timer_only != 0) {
    // The counter is compared before it is incremented.
    if (stages_.timer <= p_.threshold) return Phase::kFastRecovery;
    return stages_.timer == p_.threshold + 1 ? Phase::kAdditive : Phase::kHyper;
  }
  if (most < p_.threshold) return Phase::kFastRecovery;
  return least < p_.threshold ? Phase::kAdditive : Phase::kHyper;
}

std::uint64_t Dcqcn::step() const {
  switch (phase()) {
    case Phase::kFastRecovery:
      return 0;
    case Phase::kAdditive:
      return additive_bps_;
    case Phase::kHyper:
      break;
  }
  if (p_.hyper_multiplier == 0) return hyper_bps_;
  const std::uint32_t before =
      p_.timer_only != 0 ? stages_.timer - p_.threshold - 2 : std::min(stages_.timer, stages_.bytes) - p_.threshold;
  return hyper_bps_ * (std::uint64_t{before} + 1);
}

bool Dcqcn::hurries() const { return p_.hyper_halving != 0 && phase() == Phase::kHyper; }

std::uint64_t Dcqcn::bytes_to_event() const { return hurries() ? p_.byte_counter / 2 : p_.byte_counter; }

void Dcqcn::increase() {
  const bool first = stages_.timer + stages_.bytes == 1;
  if (p_.extra_recovery != 0 && first && target_bps_ > 10 * current_bps_) target_bps_ /= 8;
  target_bps_ = std::min(target_bps_ + step(), max_bps_);
  // Rounded up, so that it arrives: after k halvings (Rt - Rc) / 2^k is left, cut off to whole bits a second.
  current_bps_ = target_bps_ - (target_bps_ - current_bps_) / 2;
  if (current_bps_ == max_bps_ && cut_due_ == kNever) release();
}

double Dcqcn::alpha_at(Instant at) const {
  const std::int64_t periods = (at - alpha_from_).ps / p_.alpha_period.ps;
  if (first_cnp_ == kNever || periods <= 0) return alpha_;
  if (!alpha_flag_) return alpha_ * power(1 - p_.g, periods);
  return ((1 - p_.g) * alpha_ + p_.g) * power(1 - p_.g, periods - 1);
}

void Dcqcn::settle_alpha(Instant at) {
  const std::int64_t periods = (at - alpha_from_).ps / p_.alpha_period.ps;
  if (periods <= 0) return;
  alpha_ = alpha_at(at);
  alpha_from_ = alpha_from_ + p_.alpha_period * periods;
  alpha_flag_ = false;
}

void Dcqcn::answer(CcOut& out) const {
  out.rate_bps = limited_ ? current_bps_ : UINT64_MAX;
  out.deadline = std::min(increase_due_, cut_due_);
}

CongestionControl::State Dcqcn::state() const {
  return {.current_rate_bps = current_bps_, .target_rate_bps = target_bps_, .alpha = alpha_at(newest_)};
}

}  // namespace roci
