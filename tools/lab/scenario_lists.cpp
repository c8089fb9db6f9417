#include "tools/lab/scenario_lists.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <string_view>

namespace roci::lab {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostNanoseconds = INT64_MAX / 2000;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> fields_of(std::string_view row) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = row.find(',');
    fields.push_back(trimmed(row.substr(0, comma)));
    if (comma == std::string_view::npos) return fields;
    row.remove_prefix(comma + 1);
  }
}

/// Gives each row below the header to `add`, which says what is wrong with it. What is wrong; empty if nothing is.
std::string read_rows(const std::string& path, std::string_view header,
                      const std::function<std::string(const std::vector<std::string_view>& fields)>& add) {
  std::ifstream file(path);
  if (!file) return fmt::format("{}: {}", path, std::strerror(errno));
  const std::vector<std::string_view> columns = fields_of(header);
  bool below_header = false;
  std::string line;
  for (std::uint32_t number = 1; std::getline(file, line); ++number) {
    const std::string_view row = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (row.empty()) continue;
    const std::vector<std::string_view> fields = fields_of(row);
    std::string wrong;
    if (!below_header) {
      if (fields != columns) wrong = fmt::format("\"{}\" is not the header {}", row, header);
      below_header = true;
    } else if (fields.size() != columns.size()) {
      wrong = fmt::format("{} values, not the {} of {}", fields.size(), columns.size(), header);
    } else {
      wrong = add(fields);
    }
    if (!wrong.empty()) return fmt::format("{}:{}: {}", path, number, wrong);
  }
  if (file.bad()) return path + ": cannot be read";
  return below_header ? std::string() : fmt::format("{}: no header {}", path, header);
}

std::string out_of_range(std::string_view name, std::string_view text, std::uint64_t least, std::uint64_t most) {
  return fmt::format("{}: \"{}\" is not a whole number from {} to {}", name, text, least, most);
}

/// Sets `*out`; what is wrong otherwise.
template <class T>
std::string read_number(std::string_view name, std::string_view text, std::uint64_t least, std::uint64_t most, T* out) {
  const auto number = parse_count(text);
  if (!number || number.value < least || number.value > most) return out_of_range(name, text, least, most);
  *out = static_cast<T>(number.value);
  return {};
}

std::string add_point(const std::vector<std::string_view>& fields, std::vector<CdfPoint>* cdf) {
  CdfPoint point;
  if (std::string wrong = read_number("bytes", fields[0], 0, kMostBytes, &point.bytes); !wrong.empty()) return wrong;
  const auto probability = parse_fraction(fields[1]);
  if (!probability) return "probability: " + probability.wrong;
  point.probability = probability.value;
  if (!cdf->empty() && point.bytes < cdf->back().bytes) return "bytes: less than in the row before";
  if (!cdf->empty() && point.probability <= cdf->back().probability)
    return "probability: not more than in the row before";
  cdf->push_back(point);
  return {};
}

std::string add_flow(const std::vector<std::string_view>& fields, std::uint32_t hosts, std::vector<ListedFlow>* flows) {
  ListedFlow flow;
  std::uint64_t start_ns = 0;
  for (std::string wrong : {read_number("src", fields[0], 0, hosts - 1, &flow.source),
                            read_number("dst", fields[1], 0, hosts - 1, &flow.destination),
                            read_number("bytes", fields[2], 1, kMostBytes, &flow.bytes),
                            read_number("start_ns", fields[3], 0, kMostNanoseconds, &start_ns)})
    if (!wrong.empty()) return wrong;
  if (flow.source == flow.destination) return fmt::format("a flow from host {} to itself", flow.source);
  flow.start = Instant{} + nanoseconds(static_cast<std::int64_t>(start_ns));
  flows->push_back(flow);
  return {};
}

}  // namespace

Parsed<std::vector<CdfPoint>> read_cdf(const std::string& path) {
  std::vector<CdfPoint> cdf;
  const std::string wrong =
      read_rows(path, "bytes,probability", [&cdf](const auto& fields) { return add_point(fields, &cdf); });
  if (!wrong.empty()) return {{}, wrong};
  if (cdf.empty() || cdf.back().probability != 1) return {{}, path + ": the last row's probability is not 1"};
  if (cdf.back().bytes == 0) return {{}, path + ": all flows are empty"};
  return {cdf, {}};
}

Parsed<std::vector<ListedFlow>> read_flows(const std::string& path, std::uint32_t hosts) {
  std::vector<ListedFlow> flows;
  const std::string wrong =
      read_rows(path, "src,dst,bytes,start_ns", [&](const auto& fields) { return add_flow(fields, hosts, &flows); });
  if (!wrong.empty()) return {{}, wrong};
  if (flows.empty()) return {{}, path + ": no flows"};
  return {flows, {}};
}

}  // namespace roci::lab
