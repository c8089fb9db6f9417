#include "tools/roci/bench/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace roci::bench {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return result;
}

bool matches(const Row& row, const std::string& pattern) {
  for (const std::string_view text : {row.id, row.group, row.what})
    if (lower(text).find(pattern) != std::string::npos) return true;
  return false;
}

/// A row's unit with the prefix that brings the number to between 1 and 1000.
std::pair<double, std::string_view> scaled(double value, Unit unit) {
  switch (unit) {
    case Unit::kGbps:
      return {value, "Gb/s"};
    case Unit::kGBps:
      return {value, "GB/s"};
    case Unit::kMessages:
      return value >= 1e6 ? std::pair{value / 1e6, std::string_view("M/s")}
                          : std::pair{value / 1e3, std::string_view("k/s")};
    case Unit::kMicroseconds:
      return value >= 1000 ? std::pair{value / 1000, std::string_view("ms")} : std::pair{value, std::string_view("us")};
    case Unit::kSeconds:
      return {value, "s"};
    case Unit::kBytes:
      return {value, "B"};
    case Unit::kCore:
      return {value * 100, "% of a core"};
  }
  return {value, ""};
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<double> figure(const Results& results, std::string_view row) {
  const auto found = results.find(row);
  if (found == results.end() || found->second.samples.empty()) return std::nullopt;
  return median(found->second.samples);
}

std::vector<Judgement> judge(const Row& row, const Results& results) {
  std::vector<Judgement> judgements;
  const std::optional<double> own = figure(results, row.id);
  if (!own.has_value()) return judgements;
  for (const Comparison& comparison : row.comparisons) {
    Judgement judgement{&comparison, std::nullopt, comparison.plus, true};
    if (!comparison.of.empty()) {
      const std::optional<double> other = figure(results, comparison.of);
      if (!other.has_value() || *other <= 0) continue;
      judgement.ratio = *own / *other;
      judgement.bound = comparison.factor * *other + comparison.plus;
    }
    if (comparison.demand == Demand::kAtLeast) judgement.met = *own >= judgement.bound;
    if (comparison.demand == Demand::kAtMost) judgement.met = *own <= judgement.bound;
    judgements.push_back(judgement);
  }
  return judgements;
}

std::optional<double> yardstick(const Results& results) {
  const std::optional<double> cable = figure(results, kYardstickRow);
  const std::optional<double> core = figure(results, kCoreRow);
  if (!cable.has_value() || !core.has_value() || *core <= 0) return std::nullopt;
  return *cable / *core;
}

bool yardstick_is_good(const Results& results) { return yardstick(results).value_or(0) >= kLeastYardstick; }

std::vector<const Row*> select(std::string_view pattern) {
  const std::string wanted = lower(pattern);
  std::set<std::string_view> ids;
  for (const Row& row : rows())
    if (matches(row, wanted)) ids.insert(row.id);
  if (ids.empty()) return {};
  ids.insert(kYardstickRow);
  ids.insert(kCoreRow);
  std::set<std::string_view> compared;
  for (const Row& row : rows())
    if (ids.contains(row.id))
      for (const Comparison& comparison : row.comparisons) compared.insert(comparison.of);
  std::vector<const Row*> selected;
  for (const Row& row : rows())
    if (ids.contains(row.id) || compared.contains(row.id)) selected.push_back(&row);
  return selected;
}

std::string format_figure(double value, Unit unit) {
  const auto [number, name] = scaled(value, unit);
  const double size = std::abs(number);
  const int digits = unit == Unit::kBytes || size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return fmt::format("{:.{}f} {}", number, digits, name);
}

}  // namespace roci::bench
