#include "cc/fixed.h"

#include <array>
#include <new>

namespace roci {
namespace {

constexpr std::uint64_t kLeastRateBps = 1000;
constexpr std::uint64_t kMostRateBps = 10'000'000'000'000;
constexpr std::uint64_t kMostWindowBytes = 1'000'000'000;

constexpr auto kKeys = std::to_array<CcKey<FixedParameters>>({
    cc_key<FixedParameters, CcRateValue<&FixedParameters::rate_bps, kLeastRateBps, kMostRateBps>>(
        "rate", "of bytes on the wire; has to be given"),
    cc_key<FixedParameters, CcSizeValue<&FixedParameters::window_bytes, 1, kMostWindowBytes, true>>(
        "window", "unacknowledged bytes at most"),
});

std::string configure(std::span<const CcOption> options, CcSpec* spec) {
  const auto parameters = std::make_shared<FixedParameters>();
  for (const CcOption& option : options)
    if (std::string wrong = cc_set<FixedParameters>(option, kKeys, parameters.get()); !wrong.empty()) return wrong;
  if (parameters->rate_bps == 0) return "a rate has to be given, as in fixed,rate=10Gbps";
  spec->make = [](const void* p, std::byte* storage) -> CongestionControl* {
    return new (storage) Fixed(*static_cast<const FixedParameters*>(p));
  };
  spec->parameters = parameters;
  return {};
}

std::vector<CcKeyHelp> keys() {
  std::vector<CcKeyHelp> help = cc_key_help<FixedParameters>(kKeys, std::array<FixedParameters, 1>{});
  help.front().defaults = {""};
  return help;
}

}  // namespace

static_assert(sizeof(Fixed) <= CongestionControl::kMaxBytes);

void Fixed::start(const CcPath&, Instant, CcOut& out) {
  out.rate_bps = parameters_.rate_bps;
  if (parameters_.window_bytes != 0) out.window_bytes = parameters_.window_bytes;
}

CongestionControl::State Fixed::state() const {
  return {.current_rate_bps = parameters_.rate_bps, .target_rate_bps = parameters_.rate_bps};
}

constinit const CcAlgorithm kFixedAlgorithm = {
    .name = "fixed", .about = "a constant rate", .presets = {}, .configure = configure, .keys = keys};

}  // namespace roci
