#include "tools/lab/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "stack/base/units.h"
#include "tools/lab/statistics.h"

namespace roci::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFlowsShown = 32;
constexpr std::size_t kQueuesShown = 10;
constexpr std::size_t kRuleColumns = 110;

double gbps(std::uint64_t bps) { return static_cast<double>(bps) / 1e9; }
double kilobytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e3; }
double microseconds_of(Duration time) { return static_cast<double>(time.ps) / 1e6; }

Instant counted_from(const Scenario& scenario) { return Instant{} + scenario.warmup; }

std::string_view name_of(fabric::TopologyKind kind) {
  switch (kind) {
    case fabric::TopologyKind::kStar:
      return "star";
    case fabric::TopologyKind::kDumbbell:
      return "dumbbell";
    case fabric::TopologyKind::kLeafSpine:
      return "leaf-spine";
    case fabric::TopologyKind::kFatTree:
      break;
  }
  return "fat-tree";
}

/// "dcqcn", or all that there are with the number of their hosts.
std::string cc_of(const Scenario& scenario) {
  std::vector<std::pair<std::string_view, std::size_t>> counts;
  for (const HostSettings& host : scenario.hosts) {
    const auto found =
        std::find_if(counts.begin(), counts.end(), [&](const auto& count) { return count.first == host.cc_text; });
    if (found == counts.end())
      counts.emplace_back(host.cc_text, 1);
    else
      ++found->second;
  }
  if (counts.size() == 1) return std::string(counts.front().first);
  std::string out;
  for (const auto& [text, hosts] : counts) out += fmt::format("{}{} ({} hosts)", out.empty() ? "" : "; ", text, hosts);
  return out;
}

// Text.

class Text {
 public:
  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
    while (out_.ends_with(' ')) out_.pop_back();
    out_ += '\n';
  }
  void rule() { line("{}", std::string(kRuleColumns, '-')); }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

void add_head(Text& text, const Scenario& scenario, const Result& result) {
  text.rule();
  text.line(" Scenario  : {:<34} Seed   : {}", scenario.name, scenario.seed);
  text.line(" Topology  : {:<34} Links  : {}, {}",
            fmt::format("{}, {} hosts", name_of(scenario.topology.kind), scenario.hosts.size()),
            rate_text(scenario.topology.link_rate_bps), time_text(scenario.topology.link_delay));
  text.line(" Time      : {:<34} Warm-up: {}", time_text(result.ended - Instant{}), time_text(scenario.warmup));
  text.line(" CC        : {}", cc_of(scenario));
}

void add_totals(Text& text, const Result& result) {
  const Totals& total = result.total;
  text.rule();
  text.line(" {:>13}  {:>8}  {:>10}  {:>10}  {:>10}  {:>13}  {:>13}  {:>10}", "goodput[Gb/s]", "Jain", "marks", "CNPs",
            "pauses", "paused[us]", "retransmitted", "drops");
  text.line(" {:>13.3f}  {:>8.5f}  {:>10}  {:>10}  {:>10}  {:>13.3f}  {:>13}  {:>10}", gbps(total.goodput_bps),
            total.jain, total.marks, total.cnps, total.pfc_pauses, microseconds_of(total.paused),
            total.retransmitted_packets, total.drops);
  for (const auto& [reason, drops] : total.drops_by_reason)
    if (drops > 0) text.line(" Drops, {}: {}", reason, drops);
  const auto failed =
      std::count_if(result.flows.begin(), result.flows.end(), [](const FlowResult& flow) { return flow.failed; });
  if (failed > 0) text.line(" Failed flows: {}", failed);
  if (total.damaged_bytes > 0) text.line(" DAMAGED bytes in the receivers' memory: {}", total.damaged_bytes);
}

void add_completion_times(Text& text, const Scenario& scenario, const Result& result) {
  const std::vector<SizeClass> classes = flow_completion_times(result.flows, counted_from(scenario));
  if (classes.front().flows == 0) return;
  text.rule();
  text.line(" {:<8} {:>8}  {:>12} {:>12} {:>12} {:>12}  {:>9} {:>9} {:>9} {:>9}", "size", "flows", "FCT[us] mean",
            "50 %", "99 %", "max", "slowdown", "50 %", "99 %", "max");
  for (const SizeClass& one : classes)
    text.line(" {:<8} {:>8}  {:>12.3f} {:>12.3f} {:>12.3f} {:>12.3f}  {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f}", one.name,
              one.flows, microseconds_of(one.mean), microseconds_of(one.p50), microseconds_of(one.p99),
              microseconds_of(one.max), one.slowdown_mean, one.slowdown_p50, one.slowdown_p99, one.slowdown_max);
  const auto open = std::count_if(result.flows.begin(), result.flows.end(), [](const FlowResult& flow) {
    return !flow.done() && !flow.unbounded && !flow.failed;
  });
  if (open > 0) text.line(" Not done at the end: {} flows", open);
}

void add_flows(Text& text, const Result& result) {
  if (result.flows.empty() || result.flows.size() > kFlowsShown) return;
  text.rule();
  text.line(" {:>6} {:>6}  {:>14}  {:>14}  {:>14}  {:>13}  {:>13}", "src", "dst", "bytes", "start[us]", "FCT[us]",
            "goodput[Gb/s]", "retransmitted");
  for (const FlowResult& flow : result.flows)
    text.line(" {:>6} {:>6}  {:>14}  {:>14.3f}  {:>14}  {:>13.3f}  {:>13}", flow.source, flow.destination, flow.bytes,
              microseconds_of(flow.start - Instant{}),
              flow.failed   ? "failed"
              : flow.done() ? fmt::format("{:.3f}", microseconds_of(flow.end - flow.start))
                            : "-",
              gbps(flow.goodput_bps), flow.retransmitted_packets);
}

void add_queues(Text& text, const Result& result) {
  if (result.queues.empty()) return;
  std::vector<const QueueResult*> longest;
  for (const QueueResult& queue : result.queues) longest.push_back(&queue);
  std::stable_sort(longest.begin(), longest.end(),
                   [](const QueueResult* a, const QueueResult* b) { return a->mean_bytes > b->mean_bytes; });
  const std::size_t shown = std::min(longest.size(), kQueuesShown);
  text.rule();
  text.line(" {:<12} {:>5} {:>9}  {:>12}  {:>12}  {:>12}", "queue of", "port", "priority", "mean[KB]", "99 %[KB]",
            "max[KB]");
  for (std::size_t i = 0; i < shown; ++i)
    text.line(" {:<12} {:>5} {:>9}  {:>12.3f}  {:>12.3f}  {:>12.3f}", longest[i]->node, longest[i]->port,
              longest[i]->priority, longest[i]->mean_bytes / 1e3, kilobytes(longest[i]->p99_bytes),
              kilobytes(longest[i]->max_bytes));
  if (shown < longest.size()) text.line(" and {} that are shorter on average", longest.size() - shown);
}

// JSON.

/// To a millionth: more says nothing, and prints long.
double rounded(double value) { return std::round(value * 1e6) / 1e6; }

Json flow_json(const FlowResult& flow) {
  Json out{{"src", flow.source},
           {"dst", flow.destination},
           {"bytes", flow.bytes},
           {"start_ns", (flow.start - Instant{}).ns()},
           {"fct_ns", nullptr},
           {"goodput_bps", flow.goodput_bps},
           {"retransmitted_packets", flow.retransmitted_packets},
           {"unbounded", flow.unbounded},
           {"failed", flow.failed},
           {"slowdown", nullptr}};
  if (flow.done()) out["fct_ns"] = (flow.end - flow.start).ns();
  if (slowdown(flow) > 0) out["slowdown"] = rounded(slowdown(flow));
  return out;
}

Json total_json(const Result& result, bool with_wall) {
  const Totals& total = result.total;
  Json reasons = Json::object();
  for (const auto& [reason, drops] : total.drops_by_reason) reasons[reason] = drops;
  Json out{{"goodput_bps", total.goodput_bps},
           {"jain", rounded(total.jain)},
           {"marks", total.marks},
           {"cnps", total.cnps},
           {"pfc_pauses", total.pfc_pauses},
           {"paused_ns", total.paused.ns()},
           {"drops", total.drops},
           {"drops_by_reason", reasons},
           {"packet_hops", total.packet_hops},
           {"retransmitted_packets", total.retransmitted_packets},
           {"damaged_bytes", total.damaged_bytes},
           {"ended_ns", (result.ended - Instant{}).ns()}};
  if (with_wall) out["wall_s"] = result.wall_s;
  return out;
}

Json queue_json(const QueueResult& queue) {
  return {{"node", queue.node},           {"port", queue.port},
          {"priority", queue.priority},   {"mean_bytes", rounded(queue.mean_bytes)},
          {"p99_bytes", queue.p99_bytes}, {"max_bytes", queue.max_bytes}};
}

Json class_json(const SizeClass& one) {
  return {{"size", one.name},
          {"flows", one.flows},
          {"mean_ns", one.mean.ns()},
          {"p50_ns", one.p50.ns()},
          {"p95_ns", one.p95.ns()},
          {"p99_ns", one.p99.ns()},
          {"max_ns", one.max.ns()},
          {"slowdown_mean", rounded(one.slowdown_mean)},
          {"slowdown_p50", rounded(one.slowdown_p50)},
          {"slowdown_p95", rounded(one.slowdown_p95)},
          {"slowdown_p99", rounded(one.slowdown_p99)},
          {"slowdown_max", rounded(one.slowdown_max)}};
}

/// A list with a line for each element.
template <class Items, class ToJson>
std::string list_text(const Items& items, ToJson to_json) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() == 1 ? "\n    " : ",\n    ") + to_json(item).dump();
  return out + (out.size() == 1 ? "]" : "\n  ]");
}

}  // namespace

std::string summary_text(const Scenario& scenario, const Result& result) {
  Text text;
  add_head(text, scenario, result);
  add_totals(text, result);
  add_completion_times(text, scenario, result);
  add_flows(text, result);
  add_queues(text, result);
  text.rule();
  return text.take();
}

std::string result_json(const Scenario& scenario, const Result& result, std::string_view version, bool with_wall) {
  return fmt::format(
      "{{\n  \"version\": {},\n  \"scenario\": {},\n  \"seed\": {},\n  \"cc\": {},\n  \"total\": {},\n"
      "  \"fct\": {},\n  \"queues\": {},\n  \"flows\": {}\n}}\n",
      Json(version).dump(), Json(scenario.name).dump(), scenario.seed, Json(cc_of(scenario)).dump(),
      total_json(result, with_wall).dump(),
      list_text(flow_completion_times(result.flows, counted_from(scenario)), class_json),
      list_text(result.queues, queue_json), list_text(result.flows, flow_json));
}

std::string time_series_csv(const Result& result) {
  std::string out = "time_ns,what,of,value\n";
  const auto add = [&out](const Sample& sample, std::string_view what, const std::string& of, std::uint64_t value) {
    fmt::format_to(std::back_inserter(out), "{},{},{},{}\n", (sample.at - Instant{}).ns(), what, of, value);
  };
  for (const Sample& sample : result.samples) {
    for (std::size_t i = 0; i < sample.rate_bps.size(); ++i) {
      if (sample.rate_bps[i] == 0 && sample.goodput_bps[i] == 0) continue;
      const std::string of = fmt::format("flow{}:{}>{}", i, result.flows[i].source, result.flows[i].destination);
      add(sample, "rate_bps", of, sample.rate_bps[i]);
      add(sample, "goodput_bps", of, sample.goodput_bps[i]);
    }
    for (std::size_t i = 0; i < sample.queue_bytes.size(); ++i) {
      const QueueResult& queue = result.queues[i];
      add(sample, "queue_bytes", fmt::format("{}:{}:{}", queue.node, queue.port, queue.priority),
          sample.queue_bytes[i]);
    }
  }
  return out;
}

std::string sweep_header(std::string_view keys) {
  return fmt::format("{}  {:>13}  {:>8}  {:>12}  {:>12}  {:>10}  {:>10}  {:>10}  {:>10}  {:>13}  {:>14}\n", keys,
                     "goodput[Gb/s]", "Jain", "queue[KB]", "99 %[KB]", "marks", "CNPs", "pauses", "drops",
                     "slowdown 50 %", "slowdown 99 %");
}

std::string sweep_row(std::string_view values, const Scenario& scenario, const Result& result) {
  const Totals& total = result.total;
  const auto longest =
      std::max_element(result.queues.begin(), result.queues.end(),
                       [](const QueueResult& a, const QueueResult& b) { return a.mean_bytes < b.mean_bytes; });
  const QueueResult queue = longest == result.queues.end() ? QueueResult{} : *longest;
  const SizeClass all = flow_completion_times(result.flows, counted_from(scenario)).front();
  const auto slow = [&](double value) { return all.flows == 0 ? std::string("-") : fmt::format("{:.2f}", value); };
  return fmt::format("{}  {:>13.3f}  {:>8.5f}  {:>12.3f}  {:>12.3f}  {:>10}  {:>10}  {:>10}  {:>10}  {:>13}  {:>14}\n",
                     values, gbps(total.goodput_bps), total.jain, queue.mean_bytes / 1e3, kilobytes(queue.p99_bytes),
                     total.marks, total.cnps, total.pfc_pauses, total.drops, slow(all.slowdown_p50),
                     slow(all.slowdown_p99));
}

}  // namespace roci::lab
