#include "tools/lab/flow_plan.h"

#include <algorithm>
#include <numeric>

#include "stack/base/assert.h"
#include "stack/base/random.h"
#include "tools/lab/draws.h"

namespace roci::lab {
namespace {

/// Random numbers of a workload, apart from those of hosts and switches.
constexpr std::uint64_t kWorkloadStream = 0x1ab0'0000'0000'0000;

class Planner {
 public:
  explicit Planner(const Scenario& scenario) : scenario_(scenario) {}

  std::vector<PlannedFlow> plan() {
    for (std::size_t i = 0; i < scenario_.workloads.size(); ++i) {
      random_ = Random(scenario_.seed, kWorkloadStream + i);
      add(scenario_.workloads[i]);
    }
    return std::move(flows_);
  }

 private:
  void add(const Workload& workload) {
    switch (workload.kind) {
      case WorkloadKind::kIncast:
        return add_incast(workload);
      case WorkloadKind::kPermutation:
        return add_permutation(workload);
      case WorkloadKind::kAllToAll:
        return add_all_to_all(workload);
      case WorkloadKind::kAllreduceRing:
        return add_ring(workload);
      case WorkloadKind::kAllreduceTree:
        return add_tree(workload);
      case WorkloadKind::kPoisson:
        return add_poisson(workload);
      case WorkloadKind::kFlows:
        for (const ListedFlow& flow : workload.flows) add_flow(flow.source, flow.destination, flow.bytes, flow.start);
    }
  }

  std::uint32_t add_flow(std::uint32_t source, std::uint32_t destination, std::uint64_t bytes, Instant start,
                         std::vector<std::uint32_t> after = {}) {
    flows_.push_back({source, destination, bytes, start, std::move(after)});
    return static_cast<std::uint32_t>(flows_.size() - 1);
  }

  std::vector<std::uint32_t> hosts_of(const Workload& workload) const {
    if (!workload.hosts.empty()) return workload.hosts;
    std::vector<std::uint32_t> all(scenario_.hosts.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  void add_incast(const Workload& workload) {
    Instant start = workload.start;
    for (std::uint32_t sender : workload.senders) {
      add_flow(sender, workload.receiver, workload.size_bytes, start);
      start = start + workload.stagger;
    }
  }

  /// A cycle through all hosts in random order (Sattolo), so that none sends to itself.
  void add_permutation(const Workload& workload) {
    const std::vector<std::uint32_t> hosts = hosts_of(workload);
    std::vector<std::uint32_t> to = hosts;
    for (std::size_t i = to.size(); i-- > 1;) std::swap(to[i], to[random_.below(i)]);
    for (std::size_t i = 0; i < hosts.size(); ++i) add_flow(hosts[i], to[i], workload.size_bytes, workload.start);
  }

  void add_all_to_all(const Workload& workload) {
    const std::vector<std::uint32_t> hosts = hosts_of(workload);
    for (std::size_t distance = 1; distance < hosts.size(); ++distance)
      for (std::size_t i = 0; i < hosts.size(); ++i)
        add_flow(hosts[i], hosts[(i + distance) % hosts.size()], workload.size_bytes, workload.start);
  }

  /// Reduce-scatter and all-gather: in each of 2(N-1) steps each host sends a part to the next, once it has received
  /// that of the step before.
  void add_ring(const Workload& workload) {
    const std::vector<std::uint32_t> hosts = hosts_of(workload);
    const auto count = static_cast<std::uint32_t>(hosts.size());
    const std::uint64_t part = std::max<std::uint64_t>(1, workload.size_bytes / count);
    const auto first = static_cast<std::uint32_t>(flows_.size());
    for (std::uint32_t step = 0; step < 2 * (count - 1); ++step)
      for (std::uint32_t i = 0; i < count; ++i) {
        std::vector<std::uint32_t> after;
        if (step > 0) after.push_back(first + (step - 1) * count + (i + count - 1) % count);
        add_flow(hosts[i], hosts[(i + 1) % count], part, workload.start, std::move(after));
      }
  }

  /// Up a binary tree, whose root is the first host, and down again: the whole vector on each edge.
  void add_tree(const Workload& workload) {
    const std::vector<std::uint32_t> hosts = hosts_of(workload);
    const auto count = static_cast<std::uint32_t>(hosts.size());
    std::vector<std::uint32_t> up(count);
    const auto from_children = [&](std::uint32_t node) {
      std::vector<std::uint32_t> after;
      for (std::uint32_t child = 2 * node + 1; child <= 2 * node + 2 && child < count; ++child)
        after.push_back(up[child]);
      return after;
    };
    for (std::uint32_t node = count; node-- > 1;)
      up[node] = add_flow(hosts[node], hosts[(node - 1) / 2], workload.size_bytes, workload.start, from_children(node));
    std::vector<std::vector<std::uint32_t>> ready(count);
    ready[0] = from_children(0);
    for (std::uint32_t node = 1; node < count; ++node) {
      const std::uint32_t parent = (node - 1) / 2;
      ready[node] = {add_flow(hosts[parent], hosts[node], workload.size_bytes, workload.start, ready[parent])};
    }
  }

  /// Arrivals at all hosts together, as often as the load asks for; ends drawn evenly.
  void add_poisson(const Workload& workload) {
    constexpr double kPicosecondsPerSecond = 1e12;
    const std::vector<std::uint32_t> hosts = hosts_of(workload);
    const double bytes_per_second =
        workload.load * static_cast<double>(scenario_.topology.link_rate_bps) / 8 * static_cast<double>(hosts.size());
    const double mean_gap_ps = mean_of(workload.cdf) / bytes_per_second * kPicosecondsPerSecond;
    const auto end = static_cast<double>(scenario_.duration.ps);
    double at = static_cast<double>(workload.start.ps);
    for (at += draw_exponential(random_) * mean_gap_ps; at < end; at += draw_exponential(random_) * mean_gap_ps) {
      const std::uint64_t from = random_.below(hosts.size());
      const std::uint64_t to = (from + 1 + random_.below(hosts.size() - 1)) % hosts.size();
      add_flow(hosts[from], hosts[to], draw_size(workload.cdf), Instant{static_cast<std::int64_t>(at)});
    }
  }

  static double mean_of(const std::vector<CdfPoint>& cdf) {
    double mean = 0;
    CdfPoint before{};
    for (const CdfPoint& point : cdf) {
      mean += (point.probability - before.probability) * static_cast<double>(point.bytes + before.bytes) / 2;
      before = point;
    }
    return mean;
  }

  /// Evenly between two rows.
  std::uint64_t draw_size(const std::vector<CdfPoint>& cdf) {
    const double part = draw_part(random_);
    CdfPoint before{};
    for (const CdfPoint& point : cdf) {
      if (part <= point.probability) {
        const double share = (part - before.probability) / (point.probability - before.probability);
        const double bytes =
            static_cast<double>(before.bytes) + share * static_cast<double>(point.bytes - before.bytes);
        return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bytes));
      }
      before = point;
    }
    return cdf.back().bytes;
  }

  const Scenario& scenario_;
  Random random_{0};
  std::vector<PlannedFlow> flows_;
};

}  // namespace

std::vector<PlannedFlow> plan_flows(const Scenario& scenario) { return Planner(scenario).plan(); }

}  // namespace roci::lab
