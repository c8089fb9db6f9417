// Random runs of whole stacks in virtual time, one test for each seed. A seed that fails is run again with
// `test-sim --seed=N`, and `--trace` shows each frame.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <sstream>
#include <string>

#include "tests/sim/plan.h"
#include "tests/sim/world.h"

namespace roci::simtest {
namespace {

struct Totals {
  std::uint64_t operations = 0;
  std::uint64_t frames = 0;
  std::uint64_t faults = 0;
  std::uint64_t failed_endpoints = 0;
  std::uint64_t timeouts = 0;
};

struct Outcome {
  std::string wrong;
  std::uint64_t digest = 0;
};

struct RunOptions {
  PlanOptions plan;
  std::uint32_t workers = 1;  ///< of each host
  bool trace = false;
};

Outcome run_seed(std::uint64_t seed, const RunOptions& options, Totals* totals) {
  const Plan plan = make_plan(seed, options.plan);
  World world(plan, options.workers, options.trace);
  Outcome outcome{.wrong = world.run(), .digest = world.wire().digest()};
  totals->operations += world.operations();
  totals->frames += world.wire().frames();
  totals->faults += world.faults_applied();
  totals->failed_endpoints += world.failed_endpoints();
  totals->timeouts += world.counter(&Counters::local_ack_timeout_err);
  return outcome;
}

/// To standard error, which Meson shows of a failed test.
void print_comment(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) std::fprintf(stderr, "# %s\n", line.c_str());
}

bool report(std::uint64_t number, std::uint64_t seed, const std::string& wrong, const RunOptions& options) {
  std::printf("%s %" PRIu64 " - seed %" PRIu64 "\n", wrong.empty() ? "ok" : "not ok", number, seed);
  if (wrong.empty()) return true;
  print_comment(wrong);
  print_comment(describe(make_plan(seed, options.plan)));
  print_comment("to see it again: test-sim --workers=" + std::to_string(options.workers) +
                " --seed=" + std::to_string(seed));
  return false;
}

/// Disables the operations named in `names`; false for an unknown name.
bool disable(const std::vector<std::string>& names, PlanOptions* options) {
  for (const std::string& name : names) {
    bool known = false;
    for (std::size_t i = 0; i < kOpKinds; ++i) {
      if (op_name(static_cast<OpKind>(i)) != name) continue;
      options->enabled[i] = false;
      known = true;
    }
    if (!known) {
      std::fprintf(stderr, "test-sim: no operation is called \"%s\"\n", name.c_str());
      return false;
    }
  }
  return true;
}

int run(int argc, char** argv) {
  CLI::App app("Random runs of whole stacks in virtual time; TAP on standard output.");
  std::uint64_t first = 1;
  std::uint64_t count = 500;
  std::uint64_t seed = 0;
  RunOptions options;
  std::vector<std::string> without;
  app.add_option("--first", first, "first seed")->capture_default_str();
  app.add_option("--seeds", count, "how many seeds")->capture_default_str();
  CLI::Option* one = app.add_option("--seed", seed, "only this seed");
  app.add_flag("--trace", options.trace, "print each frame");
  app.add_option("--workers", options.workers, "workers of each host")->check(CLI::Range(1u, kMaxWorkers));
  app.add_option("--only-loss", options.plan.only_loss,
                 "lose packets at this rate and do nothing else; 99 % of the runs must then end without an error");
  app.add_option("--ops", options.plan.most_ops, "most operations of one QP")->capture_default_str();
  app.add_option("--without", without, "operations to leave out")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  if (!disable(without, &options.plan)) return 2;
  if (one->count() > 0) {
    first = seed;
    count = 1;
    print_comment(describe(make_plan(seed, options.plan)));
  }
  // Verdicts and comments keep their order when both go to one file.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Totals totals;
  Totals again;
  std::uint64_t failures = 0;
  std::uint64_t with_errors = 0;
  std::printf("1..%" PRIu64 "\n", count + (options.plan.only_loss > 0 ? 2 : 1));
  Outcome first_outcome;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t failed_before = totals.failed_endpoints;
    const Outcome outcome = run_seed(first + i, options, &totals);
    if (totals.failed_endpoints != failed_before) ++with_errors;
    if (i == 0) first_outcome = outcome;
    if (!report(i + 1, first + i, outcome.wrong, options)) ++failures;
  }
  options.trace = false;
  const bool same = run_seed(first, options, &again).digest == first_outcome.digest;
  std::printf("%s %" PRIu64 " - the same seed gives the same bytes\n", same ? "ok" : "not ok", count + 1);
  const bool few_errors = with_errors * 100 <= count;
  if (options.plan.only_loss > 0)
    std::printf("%s %" PRIu64 " - 99 %% of the runs end without an error (%" PRIu64 " of %" PRIu64 " with)\n",
                few_errors ? "ok" : "not ok", count + 2, with_errors, count);
  std::printf("# %" PRIu64 " operations, %" PRIu64 " frames, %" PRIu64 " faults, %" PRIu64 " timeouts, %" PRIu64
              " QPs that failed; digest of the first seed %016" PRIx64 "\n",
              totals.operations, totals.frames, totals.faults, totals.timeouts, totals.failed_endpoints,
              first_outcome.digest);
  return failures == 0 && same && (few_errors || options.plan.only_loss == 0) ? 0 : 1;
}

}  // namespace
}  // namespace roci::simtest

int main(int argc, char** argv) { return roci::simtest::run(argc, argv); }
