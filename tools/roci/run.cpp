// roci run: checks the settings, puts them and the verbs shim into the environment, and becomes the program.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/live/live_config.h"
#include "tools/roci/commands.h"
#include "tools/roci/settings_file.h"

namespace roci::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultFile = "roci.toml";

struct RunOptions {
  std::map<std::string_view, std::vector<std::string>> flags;  ///< by a setting's name
  std::string config_file;
  bool verbose = false;
};

/// A value and the place it comes from, for errors.
struct Chosen {
  std::string text;
  std::string where;
};

std::string joined(const std::vector<std::string>& values) { return fmt::format("{}", fmt::join(values, ",")); }

/// A variable that looks like a misspelt setting would be ignored in silence.
bool check_environment(std::string* error) {
  std::vector<std::string_view> known;
  for (const Setting& setting : settings()) known.push_back(setting.variable);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = std::string_view(*entry).substr(0, std::strcspn(*entry, "="));
    if (!variable.starts_with("ROCI_")) continue;
    const std::string_view nearest = nearest_name(variable, known);
    if (nearest.empty() || nearest == variable) continue;
    *error = fmt::format("{}: unknown variable, nearest: \"{}\"", variable, nearest);
    return false;
  }
  return true;
}

/// Option, then environment, then file.
Chosen choose(const Setting& setting, const RunOptions& options, const std::map<std::string_view, FileValue>& file) {
  if (const auto flag = options.flags.find(setting.name); flag != options.flags.end() && !flag->second.empty())
    return {joined(flag->second), fmt::format("--{} {}", setting.name, joined(flag->second))};
  if (const char* value = std::getenv(setting.variable); value != nullptr && *value != '\0')
    return {value, fmt::format("{}={}", setting.variable, value)};
  if (const auto row = file.find(setting.name); row != file.end())
    return {row->second.text, fmt::format("{}: {} = {}", row->second.where, setting.name, row->second.text)};
  return {};
}

bool export_settings(const RunOptions& options, std::string* error) {
  std::map<std::string_view, FileValue> file;
  if (!options.config_file.empty()) {
    if (!read_settings_file(options.config_file, &file, error)) return false;
  } else if (std::error_code ignored; fs::exists(kDefaultFile, ignored)) {
    if (!read_settings_file(kDefaultFile, &file, error)) return false;
  }
  if (!check_environment(error)) return false;
  LiveConfig config;
  for (const Setting& setting : settings()) {
    const Chosen chosen = choose(setting, options, file);
    if (chosen.where.empty()) continue;
    if (std::string wrong = setting.apply(chosen.text, &config); !wrong.empty()) {
      *error = fmt::format("{}: {}", chosen.where, wrong);
      return false;
    }
    setenv(setting.variable, chosen.text.c_str(), 1);
  }
  if (*error = check_together(config); !error->empty()) return false;
  // The program may change its folder before it opens the device.
  if (!config.capture.empty()) setenv("ROCI_CAPTURE", fs::absolute(config.capture).c_str(), 1);
  if (!config.faults.empty()) setenv("ROCI_FAULTS", fs::absolute(config.faults).c_str(), 1);
  return true;
}

/// The folder with libibverbs.so.1, from where this program lies: PREFIX/bin or the build's tools folder.
fs::path find_shim(std::string* error) {
  std::error_code failed;
  const fs::path folder = fs::read_symlink("/proc/self/exe", failed).parent_path();
  const fs::path beside[] = {
      (folder / ROCI_SHIM_FROM_BIN).lexically_normal(),
      folder.parent_path() / "verbs-shim" / "lib",
  };
  for (const fs::path& candidate : beside)
    if (fs::exists(candidate / "libibverbs.so.1", failed)) return candidate;
  *error = fmt::format("the verbs shim (libibverbs.so.1) is neither in {} nor in {}", beside[0].string(),
                       beside[1].string());
  return {};
}

void put_first(const char* variable, const std::string& value) {
  const char* before = std::getenv(variable);
  const std::string whole = before != nullptr && *before != '\0' ? value + ":" + before : value;
  setenv(variable, whole.c_str(), 1);
}

/// What libraries over verbs have to be told; what the user has set stays.
void set_for_libraries() {
  // The table has rows of RoCE v2 only: the first will do, and NCCL need not look for one.
  setenv("NCCL_IB_GID_INDEX", "0", 0);
}

/// The environment is the program's whole view of what was set.
std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t name_bytes = text.find('=');
    if (name_bytes != std::string_view::npos) all.emplace(text.substr(0, name_bytes), text.substr(name_bytes + 1));
  }
  return all;
}

void tell_what_was_set(const std::map<std::string, std::string>& before) {
  for (const auto& [name, value] : environment())
    if (const auto old = before.find(name); old == before.end() || old->second != value)
      fmt::print(stderr, "roci: set {}={}\n", name, value);
}

int become(const Program& program) {
  std::vector<char*> arguments;
  for (const std::string& argument : program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int reason = errno;
  print_error(fmt::format("{}: {}", program[0], std::strerror(reason)));
  return reason == ENOENT ? kNotFound : kNotExecutable;
}

int run(const RunOptions& options, const Program& program) {
  std::string error;
  if (program.empty()) {
    print_error("run: no program; it stands after --, as in: roci run -- ib_write_bw");
    return kUsageError;
  }
  const std::map<std::string, std::string> before = environment();
  if (!export_settings(options, &error)) {
    print_error("run: " + error);
    return kUsageError;
  }
  const fs::path shim = find_shim(&error);
  if (shim.empty()) {
    print_error("run: " + error);
    return kRunFailed;
  }
  // The loader's lists cannot quote.
  if (shim.string().find_first_of(" :;") != std::string::npos) {
    print_error(
        fmt::format("run: {} has a blank, a colon or a semicolon in it, which LD_PRELOAD cannot name; "
                    "install to another folder",
                    shim.string()));
    return kRunFailed;
  }
  put_first("LD_LIBRARY_PATH", shim.string());
  put_first("LD_PRELOAD", (shim / "libroci-redirect.so").string());
#ifdef ROCI_SANITIZER_RUNTIME
  // The program is not instrumented, and the runtime has to be loaded before anything else. What a program leaks is
  // not ours to report.
  put_first("LD_PRELOAD", ROCI_SANITIZER_RUNTIME);
  setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
#endif
  set_for_libraries();
  if (options.verbose) tell_what_was_set(before);
  return become(program);
}

class RunFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: roci run [OPTIONS] -- PROGRAM [ARGUMENT...]\n";
  }
};

}  // namespace

void add_run(CLI::App& app, const Program& program, int& status) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a program on the verbs shim; the exit status is the program's.");
  command->formatter(std::make_shared<RunFormatter>());
  for (const Setting& setting : settings()) {
    CLI::Option* option = command->add_option("--" + std::string(setting.name), options->flags[setting.name],
                                              std::string(setting.description));
    option->type_name(std::string(setting.form))->expected(1)->allow_extra_args(false);
    option->multi_option_policy(setting.is_list ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
  }
  command
      ->add_option("--config", options->config_file,
                   "read settings from a TOML file (default roci.toml if there is one)")
      ->type_name("FILE");
  command->add_flag("-v,--verbose", options->verbose, "say what is set in the program's environment");
  command->footer(
      "Each setting is taken from its option, else from the environment (ROCI_LINK, ROCI_IP, ...), else from the "
      "file.");
  command->callback([options, &program, &status] { status = run(*options, program); });
}

}  // namespace roci::tool
