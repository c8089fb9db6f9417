// The subcommands of roci, one source each.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace roci::tool {

/// What stood after `--` on the command line: a program and its arguments.
using Program = std::vector<std::string>;

/// Each adds its subcommand to `app`; `program` and `status` outlive the parsing, and the subcommand's callback sets
/// `status`, the exit status of roci.
void add_run(CLI::App& app, const Program& program, int& status);
void add_sim(CLI::App& app, int& status);
void add_stat(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);

/// Exit status of wrong usage: an unknown option or a bad value.
inline constexpr int kUsageError = 2;
/// Exit status of `roci run` when it fails itself; else it is the program's.
inline constexpr int kRunFailed = 125;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

/// Prints `roci: MESSAGE` to stderr, in colour on a terminal.
void print_error(const std::string& message);

}  // namespace roci::tool
