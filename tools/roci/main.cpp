// The roci command: finds the subcommand, turns errors of usage into one line with the nearest valid name.
#include <fmt/color.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/live/live_config.h"
#include "tools/roci/commands.h"

namespace roci::tool {

void print_error(const std::string& message) {
  const bool colour = isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  fmt::print(stderr, colour ? fmt::fg(fmt::terminal_color::red) | fmt::emphasis::bold : fmt::text_style{}, "roci:");
  fmt::print(stderr, " {}\n", message);
}

namespace {

/// The subcommand that was being parsed, or the whole command.
CLI::App& innermost(CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.front();
}

/// Names that may stand where `word` stood.
std::vector<std::string> valid_names(CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  if (word.starts_with('-')) {
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  } else {
    for (const CLI::App* subcommand : app.get_subcommands([](CLI::App*) { return true; }))
      names.push_back(subcommand->get_name());
  }
  return names;
}

std::string describe(CLI::App& app, const CLI::ParseError& error) {
  CLI::App& inner = innermost(app);
  const std::vector<std::string> extras = inner.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || extras.empty()) return error.what();
  const std::string word = extras.front().substr(0, extras.front().find('='));
  const std::vector<std::string> names = valid_names(inner, word);
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (!word.starts_with('-') && &inner != &app)
    return inner.get_name() + ": unexpected argument \"" + word + '"' +
           (inner.get_name() == "run" ? "; a program to run stands after --" : "");
  const std::string where = &inner == &app ? "" : inner.get_name() + ": ";
  return where + "unknown " + (word.starts_with('-') ? "option" : "command") + " \"" + word + '"' +
         nearest_hint(word, views);
}

int run_command_line(int argc, char** argv) {
  CLI::App app("RoCE v2 in user space: run RDMA programs without an RDMA NIC.", "roci");
  app.set_version_flag("--version", "roci " ROCI_VERSION);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

  // What follows `--` is not ours to parse.
  char** const end = argv + argc;
  char** const separator = std::find(argv, end, std::string_view("--"));
  const Program program(separator == end ? end : separator + 1, end);

  int status = 0;
  add_run(app, program, status);
  add_sim(app, status);
  add_stat(app, status);
  add_bench(app, status);
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    print_error(describe(app, error));
    fmt::print(stderr, "`{} --help` tells more.\n",
               &innermost(app) == &app ? "roci" : "roci " + innermost(app).get_name());
    return kUsageError;
  }
  if (app.get_subcommands().empty()) {
    fmt::print(stderr, "{}", app.help());
    return kUsageError;
  }
  return status;
}

}  // namespace
}  // namespace roci::tool

int main(int argc, char** argv) { return roci::tool::run_command_line(argc, argv); }
