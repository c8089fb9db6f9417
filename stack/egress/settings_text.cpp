#include "stack/egress/settings_text.h"

#include <array>
#include <charconv>
#include <optional>

#include "stack/base/nearest_name.h"

namespace roci::egress {
namespace {

constexpr std::array<std::string_view, 2> kTrusts = {"dscp", "pcp"};
constexpr unsigned kHighestDscp = 63;

std::optional<unsigned> number_up_to(std::string_view text, unsigned highest) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > highest) return std::nullopt;
  return value;
}

/// Takes the text before the next comma away from `*rest`.
std::string_view take_part(std::string_view* rest) {
  const std::size_t comma = rest->find(',');
  const std::string_view part = rest->substr(0, comma);
  *rest = comma == std::string_view::npos ? std::string_view() : rest->substr(comma + 1);
  return part;
}

std::string apply_pfc(std::string_view value, Settings* settings) {
  std::uint8_t mask = 0;
  if (value == "none") value = {};
  for (std::string_view rest = value; !rest.empty();) {
    const auto priority = number_up_to(take_part(&rest), kPriorities - 1);
    if (!priority) return "not a list of priorities from 0 to 7, as in 3 or 3,4, nor none";
    mask = static_cast<std::uint8_t>(mask | 1u << *priority);
  }
  settings->pfc = mask;
  return {};
}

std::string apply_trust(std::string_view value, Settings* settings) {
  if (value != kTrusts[0] && value != kTrusts[1]) return "not dscp or pcp" + nearest_hint(value, kTrusts);
  settings->trust = value == kTrusts[0] ? Trust::kDscp : Trust::kPcp;
  return {};
}

/// Eight numbers up to `highest`; false if it is something else.
bool parse_eight(std::string_view value, unsigned highest, std::array<std::uint8_t, kPriorities>* out) {
  std::string_view rest = value;
  for (std::uint8_t& element : *out) {
    const auto number = number_up_to(take_part(&rest), highest);
    if (!number) return false;
    element = static_cast<std::uint8_t>(*number);
  }
  return rest.empty() && !value.ends_with(',');
}

std::string apply_prio_tc(std::string_view value, Settings* settings) {
  std::array<std::uint8_t, kPriorities> classes{};
  if (!parse_eight(value, kPriorities - 1, &classes))
    return "not eight traffic classes from 0 to 7, of priorities 0 to 7 in order, as in 0,0,0,1,0,0,2,0";
  settings->prio_tc = classes;
  return {};
}

std::string apply_tc_bw(std::string_view value, Settings* settings) {
  constexpr unsigned kAll = 100;
  std::array<std::uint8_t, kPriorities> percent{};
  if (!parse_eight(value, kAll, &percent))
    return "not eight percentages, of traffic classes 0 to 7 in order, 0 for a strict one, as in 50,50,0,0,0,0,0,0";
  unsigned sum = 0;
  for (std::uint8_t share : percent) sum += share;
  if (sum != 0 && sum != kAll) return "the percentages add up to " + std::to_string(sum) + ", not to 100 or 0";
  settings->tc_bw = percent;
  return {};
}

template <std::uint8_t Settings::*field>
std::string apply_dscp(std::string_view value, Settings* settings) {
  const auto dscp = number_up_to(value, kHighestDscp);
  if (!dscp) return "not a DSCP from 0 to 63";
  settings->*field = static_cast<std::uint8_t>(*dscp);
  return {};
}

constexpr auto kSettings = std::to_array<SettingText>({
    {"pfc", "PRIORITIES", "priorities with priority flow control (802.1Qbb), as in 3 or 3,4 (default none)", apply_pfc},
    {"trust", "dscp|pcp", "what a packet's priority is read from: DSCP / 8 (default), or the PCP", apply_trust},
    {"prio_tc", "TC,...", "traffic class of each of the eight priorities (default 0,1,2,3,4,5,6,7)", apply_prio_tc},
    {"tc_bw", "PERCENT,...", "share of each of the eight traffic classes (ETS); 0, the default, makes it strict",
     apply_tc_bw},
    {"cnp_dscp", "DSCP", "DSCP of CNPs (default 48)", apply_dscp<&Settings::cnp_dscp>},
    {"dscp", "DSCP", "DSCP of QPs whose program chose none, with congestion control or PFC (default 26)",
     apply_dscp<&Settings::dscp>},
});

}  // namespace

std::span<const SettingText> setting_texts() { return kSettings; }

}  // namespace roci::egress
