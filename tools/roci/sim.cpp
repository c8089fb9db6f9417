// roci sim: runs a scenario in virtual time, or a grid of them on all cores.
#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/lab/experiment.h"
#include "tools/lab/link_capture.h"
#include "tools/lab/report.h"
#include "tools/lab/scenario_reader.h"
#include "tools/lab/sweep.h"
#include "tools/roci/commands.h"

namespace roci::tool {
namespace {

namespace fs = std::filesystem;

constexpr int kFailed = 1;

struct SimOptions {
  std::string scenario;
  std::string cc;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> sets;
  std::vector<std::string> sweeps;
  std::string json;
  std::string csv;
  std::string capture;
  std::string capture_link = "host0";
  unsigned jobs = 0;  ///< 0: as many as there are cores
  bool print_jobs = false;
  bool no_wall = false;

  lab::ScenarioChanges changes() const {
    lab::ScenarioChanges changes{.cc = cc, .sets = sets};
    if (seed) changes.sets.push_back("run.seed=" + std::to_string(*seed));
    return changes;
  }
};

/// One run, and the files that it writes; an empty path is none.
struct Job {
  lab::Combination combination;
  lab::ScenarioChanges changes;
  lab::Scenario scenario;
  std::string csv;
  std::string capture;
};

struct Outcome {
  std::string error;
  lab::Result result;
  bool damaged = false;
};

/// What is wrong; empty if nothing is.
std::string write_file(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  return written ? std::string() : path + ": " + std::strerror(errno);
}

// Progress: a line on a terminal, which goes away again.

bool is_watched() { return isatty(STDERR_FILENO) == 1; }

void clear_line() { fmt::print(stderr, "\r\x1b[K"); }

/// Of one run, once it has taken two seconds.
class RunProgress {
 public:
  ~RunProgress() {
    if (shown_) clear_line();
  }
  void update(Instant now, Instant end, std::uint64_t packet_hops) {
    constexpr std::chrono::milliseconds kPause{200};
    const auto time = Clock::now();
    if (time < next_) return;
    next_ = time + kPause;
    shown_ = true;
    const double seconds = std::chrono::duration<double>(time - began_).count();
    fmt::print(stderr, "\r{:3} % of {}, {:.2f} million packet-hops/s\x1b[K", percent(now, end),
               time_text(end - Instant{}), static_cast<double>(packet_hops) / seconds / 1e6);
    std::fflush(stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static std::int64_t percent(Instant now, Instant end) {
    return static_cast<std::int64_t>(100.0 * static_cast<double>(now.ps) / static_cast<double>(end.ps));
  }

  const Clock::time_point began_ = Clock::now();
  Clock::time_point next_ = began_ + std::chrono::seconds(2);
  bool shown_ = false;
};

// A run.

Outcome run_job(const Job& job, const std::string& capture_link, bool watched) {
  Outcome outcome;
  std::unique_ptr<lab::LinkCapture> capture;
  lab::RunOptions options;
  if (!job.capture.empty()) {
    const auto end = lab::parse_capture_end(capture_link, job.scenario);
    capture = lab::LinkCapture::open(job.capture, end.value, &outcome.error);
    if (capture == nullptr) return outcome;
    options.prepare = [&capture](sim::FabricNetwork& network) { capture->attach(network); };
  }
  {
    RunProgress progress;
    if (watched)
      options.progress = [&progress](Instant now, Instant end, std::uint64_t hops) { progress.update(now, end, hops); };
    outcome.result = lab::run(job.scenario, options);
  }
  if (capture != nullptr && !capture->finish(outcome.result.ended))
    outcome.error = capture->path() + ": not all could be written";
  if (outcome.error.empty() && !job.csv.empty())
    outcome.error = write_file(job.csv, lab::time_series_csv(outcome.result));
  outcome.damaged = outcome.result.total.damaged_bytes > 0;
  return outcome;
}

int status_of(const Outcome& outcome) {
  if (!outcome.error.empty()) print_error("sim: " + outcome.error);
  if (outcome.damaged) print_error("sim: the receivers' memory does not hold what was sent");
  return outcome.error.empty() && !outcome.damaged ? 0 : kFailed;
}

int run_one(const SimOptions& options, const Job& job) {
  const Outcome outcome = run_job(job, options.capture_link, is_watched());
  if (const int status = status_of(outcome); status != 0) return status;
  fmt::print("{}", lab::summary_text(job.scenario, outcome.result));
  if (options.json.empty()) return 0;
  const std::string wrong =
      write_file(options.json, lab::result_json(job.scenario, outcome.result, ROCI_VERSION, !options.no_wall));
  if (!wrong.empty()) print_error("sim: " + wrong);
  return wrong.empty() ? 0 : kFailed;
}

// A sweep.

std::size_t width_of(const std::vector<lab::SweptKey>& keys, std::size_t column) {
  std::size_t width = keys[column].key.size();
  for (const std::string& value : keys[column].values) width = std::max(width, value.size());
  return width;
}

/// The first columns of a row of the table.
std::string cells(const std::vector<lab::SweptKey>& keys, const lab::Combination& values) {
  std::string out;
  for (std::size_t i = 0; i < keys.size(); ++i) out += fmt::format(" {:<{}} ", values[i], width_of(keys, i));
  return out;
}

/// What a run leaves of itself, so that results need not all be kept.
struct SweptRun {
  Outcome outcome;  ///< without its result
  std::string row;
  std::string json;
};

SweptRun summarize(const SimOptions& options, const std::vector<lab::SweptKey>& keys, const Job& job, Outcome outcome) {
  nlohmann::ordered_json set = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < keys.size(); ++i) set[keys[i].key] = job.combination[i];
  SweptRun run;
  run.row = lab::sweep_row(cells(keys, job.combination), job.scenario, outcome.result);
  if (!options.json.empty())
    run.json = fmt::format("{{\"set\": {}, \"result\": {}}}", set.dump(),
                           lab::result_json(job.scenario, outcome.result, ROCI_VERSION, !options.no_wall));
  outcome.result = {};
  run.outcome = std::move(outcome);
  return run;
}

std::vector<SweptRun> run_all(const SimOptions& options, const std::vector<lab::SweptKey>& keys,
                              const std::vector<Job>& jobs) {
  std::optional<tbb::global_control> limit;
  if (options.jobs > 0) limit.emplace(tbb::global_control::max_allowed_parallelism, options.jobs);
  const bool watched = is_watched();
  std::vector<SweptRun> runs(jobs.size());
  std::atomic<std::size_t> done{0};
  const auto run = [&](std::size_t i) {
    runs[i] = summarize(options, keys, jobs[i], run_job(jobs[i], options.capture_link, false));
    const std::size_t finished = ++done;
    if (watched) fmt::print(stderr, "\r{} of {} runs\x1b[K", finished, jobs.size());
  };
  tbb::parallel_for(
      tbb::blocked_range<std::size_t>(0, jobs.size(), 1),
      [&](const tbb::blocked_range<std::size_t>& range) {
        for (std::size_t i = range.begin(); i != range.end(); ++i) run(i);
      },
      tbb::simple_partitioner());
  if (watched) clear_line();
  return runs;
}

int run_sweep(const SimOptions& options, const std::vector<lab::SweptKey>& keys, const std::vector<Job>& jobs) {
  const std::vector<SweptRun> runs = run_all(options, keys, jobs);
  lab::Combination names;
  for (const lab::SweptKey& key : keys) names.push_back(key.key);
  fmt::print("{}", lab::sweep_header(cells(keys, names)));
  int status = 0;
  std::vector<std::string> results;
  for (const SweptRun& run : runs) {
    fmt::print("{}", run.row);
    status = std::max(status, status_of(run.outcome));
    results.push_back(run.json);
  }
  if (options.json.empty()) return status;
  const std::string wrong =
      write_file(options.json, fmt::format("{{\"runs\": [\n{}\n]}}\n", fmt::join(results, ",\n")));
  if (!wrong.empty()) print_error("sim: " + wrong);
  return wrong.empty() ? status : kFailed;
}

// Commands for another machine's scheduler.

std::string shell_word(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void print_job(const SimOptions& options, const Job& job, const std::string& json) {
  std::error_code failed;
  std::vector<std::string> words{fs::read_symlink("/proc/self/exe", failed).string(), "sim", options.scenario};
  const auto add = [&words](const char* option, const std::string& value) {
    if (value.empty()) return;
    words.push_back(option);
    words.push_back(value);
  };
  add("--cc", job.changes.cc);
  for (const std::string& set : job.changes.sets) add("--set", set);
  add("--json", json);
  add("--csv", job.csv);
  add("--capture", job.capture);
  if (!job.capture.empty()) add("--capture-link", options.capture_link);
  if (options.no_wall) words.push_back("--no-wall");
  for (std::string& word : words) word = shell_word(word);
  fmt::print("{}\n", fmt::join(words, " "));
}

// The command.

/// Reads all scenarios before any of them runs. What is wrong; empty if nothing is.
std::string make_jobs(const SimOptions& options, const std::vector<lab::SweptKey>& keys, std::vector<Job>* jobs) {
  const std::vector<lab::Combination> all = lab::combinations(keys);
  const auto path = [&](const std::string& base, std::size_t number) {
    return base.empty() || keys.empty() ? base : lab::numbered_path(base, number, all.size());
  };
  for (const lab::Combination& combination : all) {
    const std::size_t number = jobs->size();
    Job job{.combination = combination,
            .changes = lab::changes_of(keys, combination, options.changes()),
            .scenario = {},
            .csv = path(options.csv, number),
            .capture = path(options.capture, number)};
    auto scenario = lab::read_scenario(options.scenario, job.changes);
    if (!scenario) return scenario.wrong;
    job.scenario = std::move(scenario.value);
    if (!job.csv.empty() && job.scenario.sample_interval.ps == 0)
      return "--csv: the scenario has no sample_interval in [run]; --set run.sample_interval=10us gives it one";
    if (!job.capture.empty())
      if (const auto end = lab::parse_capture_end(options.capture_link, job.scenario); !end)
        return "--capture-link: " + end.wrong;
    jobs->push_back(std::move(job));
  }
  return {};
}

int run_sim(const SimOptions& options) {
  std::vector<lab::SweptKey> keys;
  std::vector<Job> jobs;
  std::string wrong;
  for (const std::string& text : options.sweeps) {
    auto key = lab::parse_swept_key(text);
    if (!key) wrong = key.wrong;
    keys.push_back(std::move(key.value));
  }
  if (wrong.empty()) wrong = make_jobs(options, keys, &jobs);
  if (!wrong.empty()) {
    print_error("sim: " + wrong);
    return kUsageError;
  }
  if (options.print_jobs) {
    for (std::size_t i = 0; i < jobs.size(); ++i)
      print_job(options, jobs[i],
                options.json.empty() || keys.empty() ? options.json : lab::numbered_path(options.json, i, jobs.size()));
    return 0;
  }
  return keys.empty() ? run_one(options, jobs.front()) : run_sweep(options, keys, jobs);
}

CLI::Option* add_list(CLI::App& command, const char* name, std::vector<std::string>& values, const char* description) {
  return command.add_option(name, values, description)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace

void add_sim(CLI::App& app, int& status) {
  const auto options = std::make_shared<SimOptions>();
  CLI::App* command = app.add_subcommand(
      "sim",
      "Run a scenario in virtual time: whole stacks over a simulated fabric. The same seed gives the same bytes.");
  command->add_option("scenario", options->scenario, "what to run; docs/lab.md describes it")
      ->required()
      ->type_name("SCENARIO.toml");
  command->add_option("--cc", options->cc, "congestion control of all hosts, as dcqcn,preset=mlx")
      ->type_name("NAME[,KEY=VALUE...]");
  command->add_option("--seed", options->seed, "of all random numbers")->type_name("N");
  add_list(*command, "--set", options->sets, "change a value of the scenario: switch.kmin=10KB, workload.0.size=1MB")
      ->type_name("TABLE.KEY=VALUE");
  add_list(*command, "--sweep", options->sweeps,
           "run it with each of these values, and each combination of several; the key may be cc, and semicolons stand "
           "between values that have commas")
      ->type_name("TABLE.KEY=VALUE,...");
  command->add_option("--jobs", options->jobs, "runs of a sweep at one time (default: one a core)")->type_name("N");
  command->add_flag("--print-jobs", options->print_jobs, "print the commands of all runs, one a line, and run nothing");
  command->add_option("--json", options->json, "write the results")->type_name("FILE");
  command->add_option("--csv", options->csv, "write the time series; of a sweep, one file a run")->type_name("FILE");
  command->add_option("--capture", options->capture, "write a link's frames as pcapng; of a sweep, one file a run")
      ->type_name("FILE");
  command->add_option("--capture-link", options->capture_link, "which link (default host0)")
      ->type_name("hostN|switchN:PORT");
  command->add_flag("--no-wall", options->no_wall, "leave the real time that it took out of the results");
  command->callback([options, &status] { status = run_sim(*options); });
}

}  // namespace roci::tool
