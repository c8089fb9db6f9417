// The table of `roci bench`: its rows, what each is compared with, and what came of it. Pure: no clock, no processes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roci::bench {

enum class Unit {
  kGbps,      ///< gigabits of payload a second, 10^9
  kGBps,      ///< gigabytes a second, 10^9
  kMessages,  ///< messages a second
  kMicroseconds,
  kSeconds,
  kBytes,
  kCore,  ///< of one core's time
};

/// Whether a comparison asks for something.
enum class Demand { kNone, kAtLeast, kAtMost };

/// A figure beside another row's, or beside a number: it is to be at least, or at most, `factor` times that figure,
/// plus `plus`.
struct Comparison {
  std::string_view of;    ///< id of the other row; empty: compared with `plus` alone
  std::string_view name;  ///< of what, as the table says it
  Demand demand = Demand::kNone;
  double factor = 0;
  double plus = 0;  ///< in the row's unit
};

struct Row {
  std::string_view id;
  std::string_view group;
  std::string_view what;
  Unit unit = Unit::kGbps;
  std::string_view contestant;  ///< id of who measures it
  std::vector<Comparison> comparisons;
  std::string_view limit;  ///< what limits it, where that is known beforehand
};

/// All rows, in the order of the table.
const std::vector<Row>& rows();

/// The ratio of the bare cable to what one core copies and checks, below which there is no yardstick.
inline constexpr double kLeastYardstick = 0.6;
inline constexpr std::string_view kYardstickRow = "cable-4154";
inline constexpr std::string_view kCoreRow = "core-4154";

/// What was measured for a row, over all rounds.
struct Result {
  std::vector<double> samples;
  std::string absent;  ///< why there are no samples
  std::string limit;   ///< what limits it; empty: as the row says
};

using Results = std::map<std::string, Result, std::less<>>;  ///< by row

/// A comparison that could be made.
struct Judgement {
  const Comparison* comparison = nullptr;
  std::optional<double> ratio;  ///< to the other row's figure; none for a comparison with a number
  double bound = 0;             ///< what was asked for, in the row's unit
  bool met = false;             ///< true without a demand
};

/// The middle one, or the mean of the two in the middle. Of an empty list: NaN.
double median(std::vector<double> values);

/// Nothing when the row has no samples.
std::optional<double> figure(const Results& results, std::string_view row);

/// The comparisons of `row` whose two sides were measured.
std::vector<Judgement> judge(const Row& row, const Results& results);

/// The bare cable over one core's limit; nothing if they were not measured.
std::optional<double> yardstick(const Results& results);
/// Whether ratios mean anything.
bool yardstick_is_good(const Results& results);

/// The rows whose id, group or text holds `pattern` (any case), with those that they are compared with and the
/// yardstick's; all for an empty pattern; none when nothing matches.
std::vector<const Row*> select(std::string_view pattern);

/// "12.3 Gb/s", "0.38 us", "4.2 M/s": three digits that count.
std::string format_figure(double value, Unit unit);

}  // namespace roci::bench
