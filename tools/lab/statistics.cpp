#include "tools/lab/statistics.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "stack/base/units.h"

namespace roci::lab {
namespace {

constexpr std::array<std::uint64_t, 4> kClassEnds{10'000, 100'000, 1'000'000, 10'000'000};

__extension__ using Wide = __int128;

bool is_finished(const FlowResult& flow) { return flow.done() && !flow.failed && !flow.unbounded; }

/// `sorted` is not empty.
template <class T>
const T& nearest_rank(const std::vector<T>& sorted, std::size_t percent) {
  const std::size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[rank - 1];
}

SizeClass make_class(const std::vector<FlowResult>& flows, Instant from, std::uint64_t above, std::uint64_t up_to) {
  std::vector<std::int64_t> times;
  std::vector<double> slowdowns;
  for (const FlowResult& flow : flows) {
    if (!is_finished(flow) || flow.start < from || flow.bytes <= above || flow.bytes > up_to) continue;
    times.push_back((flow.end - flow.start).ps);
    slowdowns.push_back(slowdown(flow));
  }
  SizeClass out{.name = {}, .above_bytes = above, .up_to_bytes = up_to, .flows = times.size()};
  if (times.empty()) return out;
  std::sort(times.begin(), times.end());
  std::sort(slowdowns.begin(), slowdowns.end());
  const auto count = static_cast<std::int64_t>(times.size());
  out.mean = picoseconds(static_cast<std::int64_t>(std::accumulate(times.begin(), times.end(), Wide{0}) / count));
  out.p50 = picoseconds(nearest_rank(times, 50));
  out.p95 = picoseconds(nearest_rank(times, 95));
  out.p99 = picoseconds(nearest_rank(times, 99));
  out.max = picoseconds(times.back());
  out.slowdown_mean = std::accumulate(slowdowns.begin(), slowdowns.end(), 0.0) / static_cast<double>(count);
  out.slowdown_p50 = nearest_rank(slowdowns, 50);
  out.slowdown_p95 = nearest_rank(slowdowns, 95);
  out.slowdown_p99 = nearest_rank(slowdowns, 99);
  out.slowdown_max = slowdowns.back();
  return out;
}

}  // namespace

double slowdown(const FlowResult& flow) {
  if (!is_finished(flow) || flow.ideal.ps == 0) return 0;
  return static_cast<double>((flow.end - flow.start).ps) / static_cast<double>(flow.ideal.ps);
}

std::vector<SizeClass> flow_completion_times(const std::vector<FlowResult>& flows, Instant from) {
  std::vector<SizeClass> classes{make_class(flows, from, 0, UINT64_MAX)};
  classes.front().name = "all";
  const auto add = [&](std::uint64_t above, std::uint64_t up_to, std::string name) {
    SizeClass one = make_class(flows, from, above, up_to);
    one.name = std::move(name);
    if (one.flows > 0) classes.push_back(std::move(one));
  };
  std::uint64_t above = 0;
  for (const std::uint64_t end : kClassEnds) {
    add(above, end, "<=" + size_text(end));
    above = end;
  }
  add(above, UINT64_MAX, ">" + size_text(above));
  return classes;
}

}  // namespace roci::lab
