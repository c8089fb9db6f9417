// roci bench: the side-by-side benchmark. All contestants take turns in each round; medians make one table.
#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tools/roci/bench/contestants.h"
#include "tools/roci/bench/core_distance.h"
#include "tools/roci/bench/process.h"
#include "tools/roci/bench/report.h"
#include "tools/roci/bench/table.h"
#include "tools/roci/commands.h"

namespace roci::tool {
namespace {

using namespace bench;

constexpr unsigned kRounds = 5;
constexpr unsigned kQuickRounds = 1;
constexpr int kMeasurementFailed = 1;
constexpr int kBadYardstick = 3;
constexpr int kInterruptedStatus = 130;

struct BenchOptions {
  unsigned rounds = 0;  ///< 0: as many as --quick or its absence means
  bool quick = false;
  std::string only;
  std::string json_file;
  std::string markdown_file;
};

/// One line on a terminal that says what is being measured; elsewhere nothing.
class Progress {
 public:
  ~Progress() { clear(); }
  void clear() {
    if (shown_) fmt::print(stderr, "\r\033[K");
    shown_ = false;
  }
  void show(unsigned round, unsigned rounds, const std::string& what) {
    if (isatty(STDERR_FILENO) != 1) return;
    shown_ = true;
    fmt::print(stderr, "\r\033[Kround {} of {}: {}", round, rounds, what);
    std::fflush(stderr);
  }

 private:
  bool shown_ = false;
};

/// What a contestant has given over the rounds.
class Scores {
 public:
  explicit Scores(const std::vector<const Row*>& rows) : rows_(rows) {}

  void add(const Contestant& contestant, const Reading& reading) {
    for (const auto& [row, value] : reading.figures) results_[std::string(row)].samples.push_back(value);
    if (reading.load.has_value()) loads_[contestant.id].push_back(*reading.load);
  }
  /// A contestant that fails once is out: medians of fewer rounds are no medians.
  void set_absent(const Contestant& contestant, const std::string& why) {
    for (const Row* row : rows_) {
      if (row->contestant != contestant.id) continue;
      Result& result = results_[std::string(row->id)];
      result.samples.clear();
      result.absent = why;
    }
  }
  Results finish() {
    for (const Row* row : rows_) {
      if (!row->limit.empty()) continue;
      const auto found = loads_.find(row->contestant);
      results_[std::string(row->id)].limit =
          found == loads_.end() ? "over too soon to tell" : limit_of(median_load(found->second));
    }
    return std::move(results_);
  }

 private:
  const std::vector<const Row*>& rows_;
  Results results_;
  std::map<std::string_view, std::vector<Load>> loads_;
};

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Machine this_machine() {
  Machine machine{.processor = "an unknown processor", .cores = 1, .kernel = ""};
  std::istringstream lines(contents("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    machine.processor = line.substr(colon + 2);
    break;
  }
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) machine.cores = CPU_COUNT(&allowed);
  utsname system{};
  if (uname(&system) == 0) machine.kernel = system.release;
  return machine;
}

/// Those that measure one of the rows.
std::vector<Contestant> needed_contestants(const std::vector<const Row*>& rows, const Effort& effort) {
  std::set<std::string_view> ids;
  for (const Row* row : rows) ids.insert(row->contestant);
  std::vector<Contestant> list = contestants(effort);
  std::erase_if(list, [&](const Contestant& contestant) { return !ids.contains(contestant.id); });
  return list;
}

/// What a contestant gives while the two cores lie as they should. Without a monitor: as they lie.
Reading measure_steadily(const Contestant& contestant, DistanceMonitor* monitor, Steadiness& steadiness) {
  if (monitor == nullptr || contestant.on_one_core) return contestant.measure();
  return steadiness.best_of(contestant.measure, [monitor] { return monitor->take(); });
}

/// True if none failed.
bool run_rounds(unsigned rounds, std::vector<Contestant>& list, DistanceMonitor* monitor, Steadiness& steadiness,
                Scores& scores) {
  Progress progress;
  bool good = true;
  for (unsigned round = 1; round <= rounds; ++round)
    for (Contestant& contestant : list) {
      if (contestant.absent.empty()) {
        progress.show(round, rounds, contestant.name);
        try {
          scores.add(contestant, measure_steadily(contestant, monitor, steadiness));
          continue;
        } catch (const Absence& absence) {
          contestant.absent = absence.what();
        } catch (const Failure& failure) {
          good = false;
          contestant.absent = fmt::format("failed: {}", failure.what());
          progress.clear();
          print_error(fmt::format("bench: {}: {}", failure.what(), failure.details));
        }
      }
      scores.set_absent(contestant, contestant.absent);
    }
  return good;
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file.fail()) return true;
  print_error(fmt::format("bench: {}: {}", path, std::strerror(errno)));
  return false;
}

/// A file that is there keeps what stands outside the marks.
bool write_markdown(const std::string& path, const Report& report) {
  const std::string section = to_markdown(report);
  if (access(path.c_str(), F_OK) != 0)
    return write_file(path, fmt::format("{}\n\n{}\n{}\n", kSectionBegin, section, kSectionEnd));
  const std::string replaced = replace_section(contents(path), section);
  if (!replaced.empty()) return write_file(path, replaced);
  print_error(fmt::format("bench: {}: it has no lines \"{}\" and \"{}\", between which the table goes", path,
                          kSectionBegin, kSectionEnd));
  return false;
}

int run_bench(const BenchOptions& options) {
  Report report{
      .machine = this_machine(), .version = ROCI_VERSION, .rounds = options.rounds, .rows = {}, .results = {}};
  if (report.rounds == 0) report.rounds = options.quick ? kQuickRounds : kRounds;
  report.rows = bench::select(options.only);
  if (report.rows.empty()) {
    print_error(fmt::format("bench: no row holds \"{}\"; `roci bench --list` shows them", options.only));
    return kUsageError;
  }
  catch_interrupts();
  bool good = true;
  try {
    std::vector<Contestant> list = needed_contestants(report.rows, {.quick = options.quick});
    Scores scores(report.rows);
    const auto monitor = options.quick ? nullptr : std::make_unique<DistanceMonitor>();
    Steadiness steadiness;
    good = run_rounds(report.rounds, list, monitor.get(), steadiness, scores);
    report.results = scores.finish();
    report.machine.core_round_trip_ns = steadiness.round_trip_ns();
    report.machine.unsteady = steadiness.unsteady();
  } catch (const Interrupted&) {
    print_error("bench: interrupted");
    return kInterruptedStatus;
  }
  const bool colour = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  fmt::print("{}", to_text(report, colour));
  // Names come from the system: what is not UTF-8 in them is replaced.
  if (!options.json_file.empty())
    good &= write_file(options.json_file,
                       to_json(report).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  if (!options.markdown_file.empty()) good &= write_markdown(options.markdown_file, report);
  if (!good) return kMeasurementFailed;
  return yardstick_is_good(report.results) ? 0 : kBadYardstick;
}

void list_rows() {
  for (const Row& row : rows()) fmt::print("{:<20} {}: {}\n", row.id, row.group, row.what);
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command =
      app.add_subcommand("bench", "Measure Rocinante beside the limit of its link and beside TCP, as one table.");
  command->add_option("--rounds", options->rounds, "how often each is measured (default 5; 1 with --quick)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  command->add_flag("--quick", options->quick, "a tenth of the work: to see that all of it runs, not for figures");
  command->add_option("--only", options->only, "only rows whose id, group or text holds this, and what they need")
      ->type_name("TEXT");
  command->add_option("--json", options->json_file, "also write everything as JSON")->type_name("FILE");
  command
      ->add_option("--markdown", options->markdown_file,
                   "also write the table into FILE, between its two marks if it is there")
      ->type_name("FILE");
  const auto list = std::make_shared<bool>(false);
  command->add_flag("--list", *list, "only list the rows");
  command->footer(
      "Exit status: 0; 1 if a measurement failed; 3 if the yardstick is bad: then there are figures but no ratios.");
  command->callback([options, list, &status] {
    if (*list) return list_rows();
    status = run_bench(*options);
  });
}

}  // namespace roci::tool
