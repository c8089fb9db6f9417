// Prints docs/dcqcn-incast.md: what DCQCN makes of N senders to one receiver at 100 Gb/s.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "tests/lab/scenarios.h"
#include "tools/lab/experiment.h"

namespace roci::lab {
namespace {

struct Form {
  const char* title;
  const char* cc;
  fabric::RedConfig red;
};

const std::array<Form, 2> kForms{{
    {"`preset=paper`, Kmin 5 KB, Kmax 200 KB, Pmax 1 %", "dcqcn,preset=paper", {5'000, 200'000, 0.01}},
    {"`preset=mlx,timer_only=1`, Kmin 400 KB, Kmax 1600 KB, Pmax 20 %",
     "dcqcn,preset=mlx,timer_only=1",
     {400'000, 1'600'000, 0.2}},
}};

/// Payload of packets of 1024 bytes, which are 1106 on the wire.
constexpr double kCapacityBps = 100e9 * 1024 / 1106;
constexpr Duration kJoinAfter = milliseconds(50);
constexpr Duration kJoinSample = milliseconds(1);

Scenario incast_of(std::uint32_t senders, const Form& form) {
  Scenario scenario = star(senders + 1);
  set_cc(scenario, form.cc);
  scenario.fabric_switch.red = form.red;
  scenario.workloads = {incast(senders)};
  scenario.duration = milliseconds(150);
  return scenario;
}

const QueueResult& longest_queue(const Result& result) {
  return *std::max_element(result.queues.begin(), result.queues.end(),
                           [](const QueueResult& a, const QueueResult& b) { return a.max_bytes < b.max_bytes; });
}

std::uint64_t startup_peak_bytes(std::uint32_t senders, const Form& form) {
  Scenario scenario = incast_of(senders, form);
  scenario.duration = milliseconds(5);
  return longest_queue(run(scenario)).max_bytes;
}

/// How long a flow that joins `senders` others takes to have 80 to 120 % of its share for a millisecond.
std::string join_time(std::uint32_t senders, const Form& form) {
  Scenario scenario = incast_of(senders + 1, form);
  scenario.workloads = {incast(senders), incast(1)};
  scenario.workloads[1].senders = {senders + 1};
  scenario.workloads[1].start = Instant{} + kJoinAfter;
  scenario.duration = milliseconds(250);
  scenario.sample_interval = kJoinSample;
  const double share = kCapacityBps / (senders + 1);
  for (const Sample& sample : run(scenario).samples) {
    if (sample.at < Instant{} + kJoinAfter + kJoinSample) continue;
    const double part = static_cast<double>(sample.goodput_bps.back()) / share;
    if (part >= 0.8 && part <= 1.2)
      return fmt::format("{} ms", (sample.at - (Instant{} + kJoinAfter)).ps / milliseconds(1).ps);
  }
  return "over 200 ms";
}

void print_row(std::uint32_t senders, const Form& form) {
  Scenario scenario = incast_of(senders, form);
  scenario.warmup = milliseconds(50);
  const Result result = run(scenario);
  const QueueResult& queue = longest_queue(result);
  fmt::print("| {} | {:.2f} % | {:.4f} | {:.1f} | {:.1f} | {} | {} | {} | {:.0f} | {} |\n", senders,
             100 * static_cast<double>(result.total.goodput_bps) / kCapacityBps, result.total.jain,
             queue.mean_bytes / 1000, static_cast<double>(queue.p99_bytes) / 1000, result.total.marks,
             result.total.cnps, result.total.drops, static_cast<double>(startup_peak_bytes(senders, form)) / 1000,
             join_time(senders, form));
}

void print_page() {
  fmt::print(
      "# DCQCN under incast\n\nN hosts send to one without end, at 100 Gb/s over links of 1 us, with packets of "
      "1024 bytes; the figures are of 100 ms\nafter a warm-up of 50 ms. `ninja -C build incast-table` makes this "
      "page anew, the same bytes each time.\n\nGoodput is in parts of what the link can carry of payload. Marks and "
      "CNPs are of those 100 ms, the start-up peak is\nthe longest queue of the first 5 ms, and a flow has joined "
      "when, 50 ms after the N others began, it first has 80 to\n120 % of its share for a millisecond.\n");
  for (const Form& form : kForms) {
    fmt::print(
        "\n## {}\n\n| N | goodput | Jain | queue mean, KB | 99 %, KB | marks | CNPs | drops | start-up peak, KB | "
        "joined after |\n|---|---|---|---|---|---|---|---|---|---|\n",
        form.title);
    for (const std::uint32_t senders : {2u, 4u, 8u, 16u}) print_row(senders, form);
  }
}

}  // namespace
}  // namespace roci::lab

int main() { roci::lab::print_page(); }
