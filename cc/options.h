// The options of an algorithm as people write them: `key=value` against a table of its keys.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cc/congestion_control.h"
#include "stack/base/nearest_name.h"
#include "stack/base/units.h"

namespace roci {

struct CcOption {
  std::string_view key;
  std::string_view value;
};

/// A key of an algorithm whose parameters are a `P`.
template <class P>
struct CcKey {
  std::string_view name;
  std::string_view about;
  /// What is wrong with `value`; empty if nothing is, and then it is set.
  std::string (*set)(std::string_view value, P* parameters);
  /// The value, for help; empty if there is none.
  std::string (*show)(const P& parameters);
};

/// For help: a key and its default in each preset of its algorithm, in their order.
struct CcKeyHelp {
  std::string_view name;
  std::string_view about;
  std::vector<std::string> defaults;
};

/// How the registry knows an algorithm.
struct CcAlgorithm {
  std::string_view name;
  std::string_view about;
  std::span<const std::string_view> presets;  ///< empty: it has none
  /// What is wrong with the options; empty if nothing is, and then `spec` is set.
  std::string (*configure)(std::span<const CcOption> options, CcSpec* spec);
  std::vector<CcKeyHelp> (*keys)();
};

/// What shows that a limit is not there.
inline constexpr std::string_view kCcOff = "off";

inline std::string cc_out_of_range(std::string_view value, const std::string& least, const std::string& most) {
  return '"' + std::string(value) + "\" is not within " + least + " to " + most;
}

// The kinds of values. `kMember` is where it is kept; limits are in its unit. With `kMayBeOff` the word `off` is 0.

template <auto kMember, std::int64_t kLeastPs, std::int64_t kMostPs>
struct CcTimeValue {
  template <class P>
  static std::string set(std::string_view text, P* parameters) {
    const auto time = parse_time(text);
    if (!time) return time.wrong;
    if (time.value.ps < kLeastPs || time.value.ps > kMostPs)
      return cc_out_of_range(text, time_text({kLeastPs}), time_text({kMostPs}));
    parameters->*kMember = time.value;
    return {};
  }
  template <class P>
  static std::string show(const P& parameters) {
    return time_text(parameters.*kMember);
  }
};

template <auto kMember, auto kParse, auto kText, std::uint64_t kLeast, std::uint64_t kMost, bool kMayBeOff>
struct CcAmountValue {
  template <class P>
  static std::string set(std::string_view text, P* parameters) {
    if (kMayBeOff && text == kCcOff) {
      parameters->*kMember = 0;
      return {};
    }
    const auto amount = kParse(text);
    if (!amount) return amount.wrong + (kMayBeOff ? "; or off" : "");
    if (amount.value < kLeast || amount.value > kMost)
      return cc_out_of_range(text, kText(kLeast), kText(kMost)) + (kMayBeOff ? ", or off" : "");
    parameters->*kMember = static_cast<std::remove_reference_t<decltype(parameters->*kMember)>>(amount.value);
    return {};
  }
  template <class P>
  static std::string show(const P& parameters) {
    return kMayBeOff && parameters.*kMember == 0 ? std::string(kCcOff) : kText(parameters.*kMember);
  }
};

inline std::string cc_count_text(std::uint64_t count) { return std::to_string(count); }

/// In bit/s.
template <auto kMember, std::uint64_t kLeast, std::uint64_t kMost, bool kMayBeOff = false>
using CcRateValue = CcAmountValue<kMember, parse_rate_bps, rate_text, kLeast, kMost, kMayBeOff>;
/// In bytes.
template <auto kMember, std::uint64_t kLeast, std::uint64_t kMost, bool kMayBeOff = false>
using CcSizeValue = CcAmountValue<kMember, parse_size_bytes, size_text, kLeast, kMost, kMayBeOff>;
template <auto kMember, std::uint64_t kLeast, std::uint64_t kMost>
using CcCountValue = CcAmountValue<kMember, parse_count, cc_count_text, kLeast, kMost, false>;
/// 0 or 1.
template <auto kMember>
using CcSwitchValue = CcCountValue<kMember, 0, 1>;

template <class P, class Value>
constexpr CcKey<P> cc_key(std::string_view name, std::string_view about) {
  return {name, about, &Value::template set<P>, &Value::template show<P>};
}

/// Sets one option. What is wrong; empty if nothing is.
template <class P>
std::string cc_set(const CcOption& option, std::span<const CcKey<P>> keys, P* parameters) {
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const CcKey<P>& k) { return k.name == option.key; });
  if (key == keys.end()) {
    std::vector<std::string_view> names;
    for (const CcKey<P>& known : keys) names.push_back(known.name);
    return "no key is called \"" + std::string(option.key) + '"' + nearest_hint(option.key, names);
  }
  const std::string wrong = key->set(option.value, parameters);
  return wrong.empty() ? wrong : std::string(option.key) + ": " + wrong;
}

/// `presets`: the parameters of each.
template <class P>
std::vector<CcKeyHelp> cc_key_help(std::span<const CcKey<P>> keys, std::span<const P> presets) {
  std::vector<CcKeyHelp> out;
  for (const CcKey<P>& key : keys) {
    CcKeyHelp& help = out.emplace_back(CcKeyHelp{key.name, key.about, {}});
    for (const P& preset : presets) help.defaults.push_back(key.show(preset));
  }
  return out;
}

}  // namespace roci
