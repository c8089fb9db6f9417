#include "stack/base/units.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "stack/base/nearest_name.h"

namespace roci {
namespace {

__extension__ using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// The first of each is the one to show in an example.
constexpr auto kTimes =
    std::to_array<Unit>({{"us", 1'000'000}, {"ns", 1000}, {"ms", 1'000'000'000}, {"s", 1'000'000'000'000}});
constexpr auto kRates = std::to_array<Unit>({{"Gbps", 1'000'000'000}, {"Mbps", 1'000'000}, {"Kbps", 1000}, {"bps", 1}});
constexpr auto kSizes =
    std::to_array<Unit>({{"KB", 1000}, {"B", 1}, {"MB", 1'000'000}, {"KiB", 1 << 10}, {"MiB", 1 << 20}});

constexpr std::uint64_t kMostMantissa = 1'000'000'000'000'000'000;
constexpr int kMostDecimals = 18;

/// mantissa / 10^decimals, and what follows the number in the text.
struct Decimal {
  bool valid = false;
  std::uint64_t mantissa = 0;
  int decimals = 0;
  std::string_view rest;
};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

/// "e-3" at the front of `rest`, taken off it: 0 if there is none.
int take_exponent(std::string_view* rest) {
  std::size_t at = 1;
  if (rest->empty() || (rest->front() != 'e' && rest->front() != 'E')) return 0;
  const bool negative = at < rest->size() && (*rest)[at] == '-';
  if (negative || (at < rest->size() && (*rest)[at] == '+')) ++at;
  if (at == rest->size() || !is_digit((*rest)[at])) return 0;
  int exponent = 0;
  for (; at < rest->size() && is_digit((*rest)[at]); ++at)
    exponent = std::min(exponent * 10 + ((*rest)[at] - '0'), 1000);
  rest->remove_prefix(at);
  return negative ? -exponent : exponent;
}

Decimal read_decimal(std::string_view text) {
  Decimal out;
  std::size_t at = 0;
  bool has_digits = false;
  bool has_point = false;
  for (; at < text.size() && (is_digit(text[at]) || (text[at] == '.' && !has_point)); ++at) {
    if (text[at] == '.') {
      has_point = true;
      continue;
    }
    has_digits = true;
    if (out.mantissa >= kMostMantissa / 10) return out;
    out.mantissa = out.mantissa * 10 + static_cast<std::uint64_t>(text[at] - '0');
    if (has_point) ++out.decimals;
  }
  out.rest = text.substr(at);
  out.decimals -= take_exponent(&out.rest);
  for (; out.decimals < 0 && out.mantissa < kMostMantissa / 10; ++out.decimals) out.mantissa *= 10;
  out.valid = has_digits && out.decimals >= 0 && out.decimals <= kMostDecimals;
  return out;
}

std::string list_of(std::span<const Unit> units) {
  std::string out;
  for (const Unit& unit : units) out += (out.empty() ? "" : ", ") + std::string(unit.name);
  return out;
}

/// In units of factor 1, which `least` names.
Parsed<std::uint64_t> parse_quantity(std::string_view text, std::span<const Unit> units, std::string_view least,
                                     std::uint64_t most) {
  const Decimal number = read_decimal(text);
  if (!number.valid)
    return {0, quoted(text) + " is not a number with a unit (" + list_of(units) + "), such as 1" +
                   std::string(units.front().name)};
  if (number.rest.empty())
    return {0, quoted(text) + " has no unit: " + list_of(units) + ", as in " + std::string(text) +
                   std::string(units.front().name)};
  const auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == number.rest; });
  if (unit == units.end()) {
    std::vector<std::string_view> names;
    for (const Unit& known : units) names.push_back(known.name);
    return {0, quoted(text) + ": no unit is called " + quoted(number.rest) + nearest_hint(number.rest, names) +
                   "; there are " + list_of(units)};
  }
  const Wide scaled = Wide{number.mantissa} * unit->factor;
  Wide divisor = 1;
  for (int i = 0; i < number.decimals; ++i) divisor *= 10;
  if (scaled % divisor != 0) return {0, quoted(text) + " is finer than a " + std::string(least)};
  if (scaled / divisor > most) return {0, quoted(text) + " is too large"};
  return {static_cast<std::uint64_t>(scaled / divisor), {}};
}

double as_double(const Decimal& number) {
  double power = 1;  // exact, as all powers of ten up to 10^22 are
  for (int i = 0; i < number.decimals; ++i) power *= 10;
  return static_cast<double>(number.mantissa) / power;
}

std::string quantity_text(std::uint64_t value, std::span<const Unit> units) {
  const Unit* best = nullptr;
  for (const Unit& unit : units) {
    if (unit.name.ends_with("iB")) continue;  // has no finite decimals
    const bool better = best == nullptr || (best->factor > value ? unit.factor < best->factor
                                                                 : unit.factor <= value && unit.factor > best->factor);
    if (better) best = &unit;
  }
  std::string out = std::to_string(value / best->factor);
  std::string decimals = std::to_string(best->factor + value % best->factor).substr(1);
  while (!decimals.empty() && decimals.back() == '0') decimals.pop_back();
  if (!decimals.empty()) out += '.' + decimals;
  return out + std::string(best->name);
}

}  // namespace

Parsed<Duration> parse_time(std::string_view text) {
  auto ps = parse_quantity(text, kTimes, "picosecond", INT64_MAX);
  return {Duration{static_cast<std::int64_t>(ps.value)}, std::move(ps.wrong)};
}

Parsed<std::uint64_t> parse_rate_bps(std::string_view text) {
  return parse_quantity(text, kRates, "bit a second", INT64_MAX);
}

Parsed<std::uint64_t> parse_size_bytes(std::string_view text) {
  return parse_quantity(text, kSizes, "byte", INT64_MAX);
}

Parsed<std::uint64_t> parse_count(std::string_view text) {
  const Decimal number = read_decimal(text);
  if (!number.valid || !std::all_of(text.begin(), text.end(), is_digit))
    return {0, quoted(text) + " is not a whole number"};
  return {number.mantissa, {}};
}

Parsed<double> parse_fraction(std::string_view text) {
  Decimal number = read_decimal(text);
  bool valid = number.valid;
  double divisor = 1;
  if (number.rest == "%") {
    number.decimals += 2;
  } else if (number.rest.starts_with('/')) {
    const Decimal below = read_decimal(number.rest.substr(1));
    divisor = as_double(below);
    valid = valid && below.valid && below.rest.empty() && below.mantissa != 0;
  } else {
    valid = valid && number.rest.empty();
  }
  const double value = as_double(number) / (valid ? divisor : 1);
  if (!valid || value > 1) return {0, quoted(text) + " is not a fraction: 0 to 1, 0% to 100%, or such as 1/256"};
  return {value, {}};
}

std::string time_text(Duration time) { return quantity_text(static_cast<std::uint64_t>(time.ps), kTimes); }
std::string rate_text(std::uint64_t rate_bps) { return quantity_text(rate_bps, kRates); }
std::string size_text(std::uint64_t bytes) { return quantity_text(bytes, kSizes); }

}  // namespace roci
