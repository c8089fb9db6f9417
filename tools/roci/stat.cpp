// roci stat: the counters of the stacks that run under this user, one shot.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "drivers/cable/cable_counters.h"
#include "drivers/cable/directory.h"
#include "stack/base/counters.h"
#include "tools/roci/commands.h"

namespace roci::tool {
namespace {

struct StatOptions {
  bool all = false;
  bool json = false;
  bool describe = false;
};

std::string address_text(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN];
  if (address.is_v4()) return inet_ntop(AF_INET, address.bytes.data() + 12, text, sizeof text);
  return inet_ntop(AF_INET6, address.bytes.data(), text, sizeof text);
}

/// Calls visit(name, value) for each counter of an end, the stack's first.
template <class Visit>
void for_each_counter(const CableEnd& end, Visit visit) {
  for (std::size_t i = 0; i < kCounterInfos.size(); ++i) visit(kCounterInfos[i].name, end.stack_counters[i]);
  for (std::size_t i = 0; i < kCableCounterInfos.size(); ++i) visit(kCableCounterInfos[i].name, end.cable_counters[i]);
}

void print_text(const CableEnd& end, bool all) {
  std::vector<std::string> addresses;
  for (const IpAddress& address : end.addresses) addresses.push_back(address_text(address));
  fmt::print("{}: {} (pid {}) on cable:{}, {}\n", end.device_name, end.program, end.pid, end.cable,
             fmt::join(addresses, " "));
  for_each_counter(end, [&](std::string_view name, std::uint64_t value) {
    if (all || value != 0) fmt::print("     {}: {}\n", name, value);
  });
}

nlohmann::ordered_json to_json(const CableEnd& end) {
  nlohmann::ordered_json addresses = nlohmann::ordered_json::array();
  for (const IpAddress& address : end.addresses) addresses.push_back(address_text(address));
  nlohmann::ordered_json counters = nlohmann::ordered_json::object();
  for_each_counter(end, [&](std::string_view name, std::uint64_t value) { counters[std::string(name)] = value; });
  return {{"device", end.device_name},    {"pid", end.pid},         {"program", end.program},
          {"link", "cable:" + end.cable}, {"addresses", addresses}, {"counters", counters}};
}

void print_descriptions() {
  for (const CounterInfo& info : kCounterInfos) fmt::print("{}: {}\n", info.name, info.description);
  for (const CableCounterInfo& info : kCableCounterInfos) fmt::print("{}: {}\n", info.name, info.description);
}

int stat(const StatOptions& options) {
  if (options.describe) {
    print_descriptions();
    return 0;
  }
  const std::vector<CableEnd> ends = list_cable_ends();
  if (options.json) {
    nlohmann::ordered_json stacks = nlohmann::ordered_json::array();
    for (const CableEnd& end : ends) stacks.push_back(to_json(end));
    // Names come from other processes: what is not UTF-8 in them is replaced.
    fmt::print("{}\n", stacks.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
  }
  for (const CableEnd& end : ends) print_text(end, options.all);
  if (ends.empty()) fmt::print(stderr, "No stack is running.\n");
  return 0;
}

}  // namespace

void add_stat(CLI::App& app, int& status) {
  const auto options = std::make_shared<StatOptions>();
  CLI::App* command = app.add_subcommand("stat", "Print the counters of the stacks that run under this user.");
  command->add_flag("-a,--all", options->all, "also the counters that are zero");
  command->add_flag("--json", options->json, "all counters as JSON, for programs");
  command->add_flag("--describe", options->describe, "what each counter counts");
  command->callback([options, &status] { status = stat(*options); });
}

}  // namespace roci::tool
