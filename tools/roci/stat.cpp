// roci stat: the counters of the stacks that run under this user, one shot.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "drivers/cable/cable_counters.h"
#include "drivers/cable/directory.h"
#include "drivers/live/stack_file.h"
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

/// A stack, on whichever link.
struct Stack {
  std::string link;
  std::string driver;  ///< empty on a cable
  std::string device_name;
  std::string program;
  std::int32_t pid = 0;
  std::vector<IpAddress> addresses;
  std::vector<std::pair<std::string_view, std::uint64_t>> counters;  ///< the stack's first, then the link's
  std::vector<QpRate> rates;                                         ///< of QPs with congestion control
};

void add_counters(Stack& stack, std::span<const CounterInfo> infos, std::span<const std::uint64_t> values) {
  for (std::size_t i = 0; i < infos.size(); ++i) stack.counters.emplace_back(infos[i].name, values[i]);
}

void add_rates(Stack& stack, const QpRates& rates) {
  for (const QpRate& rate : rates)
    if (rate.qpn != 0) stack.rates.push_back(rate);
}

std::vector<Stack> running_stacks() {
  std::vector<Stack> stacks;
  for (const CableEnd& end : list_cable_ends()) {
    Stack& stack = stacks.emplace_back(
        Stack{"cable:" + end.cable, {}, end.device_name, end.program, end.pid, end.addresses, {}, {}});
    add_counters(stack, kCounterInfos, end.stack_counters);
    add_counters(stack, kCableCounterInfos, end.cable_counters);
    add_rates(stack, end.rates);
  }
  for (const RunningStack& found : list_stacks()) {
    const StackIdentity& identity = found.identity;
    Stack& stack = stacks.emplace_back(Stack{
        identity.link, identity.driver, identity.device_name, found.program, found.pid, identity.addresses, {}, {}});
    add_counters(stack, kCounterInfos, found.stack_counters);
    add_counters(stack, kDpdkCounterInfos, found.port_counters);
    add_rates(stack, found.rates);
  }
  return stacks;
}

/// An interface of the kernel hands pause frames to nobody, and its queues, not the stack's, are before the wire.
bool sees_pfc(const Stack& stack) { return !stack.link.starts_with("netdev:"); }

double in_gbps(std::uint64_t rate_bps) { return static_cast<double>(rate_bps) / 1e9; }
double in_parts(std::uint64_t millionths) { return static_cast<double>(millionths) / 1e6; }

void print_text(const Stack& stack, bool all) {
  std::vector<std::string> addresses;
  for (const IpAddress& address : stack.addresses) addresses.push_back(address_text(address));
  fmt::print("{}: {} (pid {}) on {}, {}\n", stack.device_name, stack.program, stack.pid, stack.link,
             fmt::join(addresses, " "));
  if (!stack.driver.empty()) fmt::print("     driver: {}\n", stack.driver);
  if (!sees_pfc(stack)) fmt::print("     pfc: neither seen nor sent, since this is an interface of the kernel\n");
  for (const auto& [name, value] : stack.counters)
    if (all || value != 0) fmt::print("     {}: {}\n", name, value);
  for (const QpRate& rate : stack.rates)
    fmt::print("     QP {:#08x}: Rc {:.3f} Gb/s, Rt {:.3f} Gb/s, alpha {:.6f}\n", rate.qpn,
               in_gbps(rate.current_rate_bps), in_gbps(rate.target_rate_bps), in_parts(rate.alpha_ppm));
}

nlohmann::ordered_json to_json(const Stack& stack) {
  nlohmann::ordered_json addresses = nlohmann::ordered_json::array();
  for (const IpAddress& address : stack.addresses) addresses.push_back(address_text(address));
  nlohmann::ordered_json counters = nlohmann::ordered_json::object();
  for (const auto& [name, value] : stack.counters) counters[std::string(name)] = value;
  nlohmann::ordered_json rates = nlohmann::ordered_json::array();
  for (const QpRate& rate : stack.rates)
    rates.push_back({{"qpn", rate.qpn},
                     {"current_rate_bps", rate.current_rate_bps},
                     {"target_rate_bps", rate.target_rate_bps},
                     {"alpha", in_parts(rate.alpha_ppm)}});
  nlohmann::ordered_json object{
      {"device", stack.device_name}, {"pid", stack.pid}, {"program", stack.program}, {"link", stack.link}};
  if (!stack.driver.empty()) object["driver"] = stack.driver;
  object["sees_pfc"] = sees_pfc(stack);
  object["addresses"] = addresses;
  object["counters"] = counters;
  object["rates"] = rates;
  return object;
}

void print_descriptions() {
  for (const std::span<const CounterInfo> infos :
       {std::span<const CounterInfo>(kCounterInfos), std::span<const CounterInfo>(kCableCounterInfos),
        std::span<const CounterInfo>(kDpdkCounterInfos)})
    for (const CounterInfo& info : infos) fmt::print("{}: {}\n", info.name, info.description);
}

int stat(const StatOptions& options) {
  if (options.describe) {
    print_descriptions();
    return 0;
  }
  const std::vector<Stack> stacks = running_stacks();
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Stack& stack : stacks) list.push_back(to_json(stack));
    // Names come from other processes: what is not UTF-8 in them is replaced.
    fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
  }
  for (const Stack& stack : stacks) print_text(stack, options.all);
  if (stacks.empty()) fmt::print(stderr, "No stack is running.\n");
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
