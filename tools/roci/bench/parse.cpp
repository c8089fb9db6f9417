#include "tools/roci/bench/parse.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/roci/bench/table.h"

namespace roci::bench {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// The numbers of the last line that follows perftest's heading and holds nothing else.
std::vector<double> last_perftest_row(std::string_view text) {
  std::vector<double> row;
  bool in_table = false;
  for (const std::string& line : lines_of(text)) {
    const std::vector<std::string> words = words_of(line);
    if (!words.empty() && words[0] == "#bytes") {
      in_table = true;
      continue;
    }
    if (!in_table || words.empty()) continue;
    std::vector<double> numbers;
    for (const std::string& word : words)
      if (const std::optional<double> number = number_of(word)) numbers.push_back(*number);
    if (numbers.size() == words.size()) row = numbers;
  }
  return row;
}

/// The number after "NAME =" in sockperf's text.
std::optional<double> sockperf_number(std::string_view text, std::string_view name) {
  const std::size_t found = text.find(name);
  if (found == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(found + name.size());
  rest = rest.substr(0, rest.find('\n'));
  const std::size_t start = rest.find_first_of("0123456789");
  if (start == std::string_view::npos) return std::nullopt;
  return number_of(rest.substr(start));
}

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns;
  std::istringstream stream(line);
  for (std::string column; std::getline(stream, column, ',');) columns.push_back(column);
  return columns;
}

std::string percent(const EndLoad& end) { return fmt::format("{:.0f} %", end.cores * 100); }

}  // namespace

std::optional<Bandwidth> parse_perftest_bandwidth(std::string_view text) {
  // bytes, iterations, peak, average, million messages a second
  const std::vector<double> row = last_perftest_row(text);
  if (row.size() != 5 || row[3] <= 0) return std::nullopt;
  return Bandwidth{row[3], row[4] * 1e6};
}

std::optional<Latency> parse_perftest_latency(std::string_view text) {
  // bytes, iterations, least, most, typical, average, deviation, 99 %, 99.9 %
  const std::vector<double> row = last_perftest_row(text);
  if (row.size() != 9 || row[4] <= 0) return std::nullopt;
  return Latency{row[4], row[7], row[8]};
}

std::optional<double> parse_iperf3(std::string_view text) {
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  const nlohmann::json::json_pointer where("/end/sum_received/bits_per_second");
  if (document.is_discarded() || !document.contains(where) || !document.at(where).is_number()) return std::nullopt;
  return document.at(where).get<double>() / 1e9;
}

std::optional<Latency> parse_sockperf(std::string_view text) {
  const std::optional<double> half = sockperf_number(text, "percentile 50.000 =");
  const std::optional<double> most = sockperf_number(text, "percentile 99.000 =");
  const std::optional<double> nearly_all = sockperf_number(text, "percentile 99.900 =");
  if (!half.has_value() || !most.has_value() || !nearly_all.has_value()) return std::nullopt;
  return Latency{*half, *most, *nearly_all};
}

std::optional<double> parse_ucx(std::string_view text, std::string_view column) {
  std::vector<std::string> names;
  std::optional<double> value;
  for (const std::string& line : lines_of(text)) {
    const std::vector<std::string> columns = columns_of(line);
    if (!columns.empty() && columns[0] == "iterations") {
      names = columns;
      continue;
    }
    if (names.empty() || columns.size() != names.size()) continue;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == column) value = number_of(columns[i]);
  }
  return value;
}

Load median_load(const std::vector<Load>& loads) {
  const auto of = [&](EndLoad Load::*end, double EndLoad::*number) {
    std::vector<double> values;
    for (const Load& load : loads) values.push_back(load.*end.*number);
    return median(values);
  };
  return {{of(&Load::client, &EndLoad::cores), of(&Load::client, &EndLoad::ring_full_per_1000)},
          {of(&Load::server, &EndLoad::cores), of(&Load::server, &EndLoad::ring_full_per_1000)}};
}

std::string limit_of(const Load& load) {
  // A sender that finds no room so often waits for its peer.
  constexpr double kOften = 10;
  constexpr double kFull = 0.9;
  const std::string shares = fmt::format("client {}, server {} of a core", percent(load.client), percent(load.server));
  const bool client_waits = load.client.ring_full_per_1000 >= kOften;
  const bool server_waits = load.server.ring_full_per_1000 >= kOften;
  if (client_waits && !server_waits)
    return fmt::format("the server: the client finds the ring full {:.0f} times in 1000 frames; {}",
                       load.client.ring_full_per_1000, shares);
  if (server_waits && !client_waits)
    return fmt::format("the client: the server finds the ring full {:.0f} times in 1000 frames; {}",
                       load.server.ring_full_per_1000, shares);
  const bool client_full = load.client.cores >= kFull;
  const bool server_full = load.server.cores >= kFull;
  if (client_full && server_full) return "both cores: " + shares;
  if (client_full) return "the client's core: " + shares;
  if (server_full) return "the server's core: " + shares;
  return "waiting for each other: " + shares;
}

bool lists_listener(std::string_view table, unsigned port) {
  // "  sl: ADDRESS:PORT REMOTE:PORT STATE ...", state 0A is LISTEN.
  const std::string suffix = fmt::format(":{:04X}", port);
  for (const std::string& line : lines_of(table)) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() > 3 && words[1].ends_with(suffix) && words[3] == "0A") return true;
  }
  return false;
}

}  // namespace roci::bench
