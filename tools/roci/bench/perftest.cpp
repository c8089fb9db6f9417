// Rocinante as perftest sees it, over a cable.
#include <fmt/format.h>

#include "tools/roci/bench/contestants.h"
#include "tools/roci/bench/pair.h"

namespace roci::bench {
namespace {

constexpr unsigned kQuickPart = 10;

std::string work_of(const Effort& effort, unsigned iterations) {
  return fmt::format("{}", effort.quick ? iterations / kQuickPart : iterations);
}

/// What does not run without perftest.
std::string need(std::string_view program) {
  return is_installed(program) ? "" : fmt::format("{} is not installed (package perftest)", program);
}

Reading measure_bandwidth(std::string_view row, bool messages, const Command& program) {
  Pair pair(on_a_cable(), program);
  Reading reading;
  const std::string output = pair.finish(&reading.load);
  const std::optional<Bandwidth> found = parse_perftest_bandwidth(output);
  if (!found.has_value()) throw Failure(fmt::format("{}: no table in its output", program[0]));
  reading.figures[row] = messages ? found->messages_per_s : found->gbps;
  return reading;
}

struct LatencyRows {
  std::string_view typical;
  std::string_view percent_99;
  std::string_view percent_999;
};

Reading measure_latency(const LatencyRows& rows, const Command& program) {
  Pair pair(on_a_cable(), program);
  const std::optional<Latency> found = parse_perftest_latency(pair.finish());
  if (!found.has_value()) throw Failure(fmt::format("{}: no table in its output", program[0]));
  return {
      {{rows.typical, found->typical}, {rows.percent_99, found->percent_99}, {rows.percent_999, found->percent_999}},
      std::nullopt};
}

struct BandwidthCase {
  std::string_view row;
  const char* program;
  /// Of each QP. Also its tenth is a multiple of 16, the list, and of 100: perftest asks for a completion each 100
  /// writes and counts each as 100, so that with several QPs and a rest it may think that it is done too soon, and
  /// hang.
  unsigned iterations;
  Command flags;
};

std::vector<BandwidthCase> bandwidth_cases() {
  return {
      {"write-64k", "ib_write_bw", 60'000, {"-s", "65536"}},
      {"send-64k", "ib_send_bw", 60'000, {"-s", "65536"}},
      {"read-64k", "ib_read_bw", 60'000, {"-s", "65536"}},
      {"write-1m", "ib_write_bw", 4'000, {"-s", "1048576"}},
      {"send-1m", "ib_send_bw", 4'000, {"-s", "1048576"}},
      {"read-1m", "ib_read_bw", 4'000, {"-s", "1048576"}},
      {"write-both", "ib_write_bw", 40'000, {"-s", "65536", "-b"}},
      {"send-both", "ib_send_bw", 40'000, {"-s", "65536", "-b"}},
      {"read-both", "ib_read_bw", 40'000, {"-s", "65536", "-b"}},
      {"write-1024", "ib_write_bw", 40'000, {"-s", "65536", "-m", "1024"}},
      {"send-1024", "ib_send_bw", 40'000, {"-s", "65536", "-m", "1024"}},
      {"read-1024", "ib_read_bw", 40'000, {"-s", "65536", "-m", "1024"}},
  };
}

std::vector<BandwidthCase> rate_cases() {
  return {
      {"rate-1", "ib_write_bw", 3'200'000, {"-s", "8"}},
      {"rate-1-list", "ib_write_bw", 3'200'000, {"-s", "8", "-l", "16"}},
      {"rate-16", "ib_write_bw", 192'000, {"-s", "8", "-q", "16"}},
      {"rate-16-list", "ib_write_bw", 192'000, {"-s", "8", "-q", "16", "-l", "16"}},
      {"rate-256", "ib_write_bw", 16'000, {"-s", "8", "-q", "256"}},
      {"rate-256-list", "ib_write_bw", 16'000, {"-s", "8", "-q", "256", "-l", "16"}},
  };
}

void add_bandwidth(std::vector<Contestant>& list, const Effort& effort, const BandwidthCase& test, bool messages) {
  Command program{test.program, "-F", "-N", "--report_gbits", "-n", work_of(effort, test.iterations)};
  program.insert(program.end(), test.flags.begin(), test.flags.end());
  list.push_back({test.row, fmt::format("{} {}", test.program, fmt::join(test.flags, " ")), need(test.program),
                  [row = test.row, messages, program] { return measure_bandwidth(row, messages, program); }});
}

void add_latency(std::vector<Contestant>& list, const Effort& effort, const char* program, const LatencyRows& rows,
                 Command flags) {
  constexpr unsigned kIterations = 20'000;
  Command command{program, "-F", "-n", work_of(effort, kIterations)};
  command.insert(command.end(), flags.begin(), flags.end());
  list.push_back({rows.typical, program, need(program), [rows, command] { return measure_latency(rows, command); }});
}

}  // namespace

void add_perftest(std::vector<Contestant>& list, const Effort& effort) {
  for (const BandwidthCase& test : bandwidth_cases()) add_bandwidth(list, effort, test, false);
  for (const BandwidthCase& test : rate_cases()) add_bandwidth(list, effort, test, true);
  add_latency(list, effort, "ib_send_lat", {"send-latency", "send-latency-99", "send-latency-999"}, {"-s", "2"});
  add_latency(list, effort, "ib_read_lat", {"read-latency", "read-latency-99", "read-latency-999"}, {"-s", "2"});
  add_latency(list, effort, "ib_atomic_lat", {"atomic-latency", "atomic-latency-99", "atomic-latency-999"}, {});
  add_latency(list, effort, "ib_write_lat", {"write-latency", "write-latency-99", "write-latency-999"}, {"-s", "2"});
}

}  // namespace roci::bench
