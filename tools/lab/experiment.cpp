#include "tools/lab/experiment.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "drivers/fabric/large_pages.h"
#include "drivers/sim/fabric_network.h"
#include "stack/base/assert.h"
#include "tools/lab/flow_plan.h"
#include "tools/lab/host.h"
#include "tools/lab/path.h"

namespace roci::lab {
namespace {

/// Of any packet, with IPv6, a tag and the longest extension headers.
constexpr std::uint32_t kHeaderRoomBytes = 128;
constexpr std::uint64_t kEventsPerProgress = 1 << 16;

/// Payload per second over `time`.
std::uint64_t rate_of(std::uint64_t bytes, Duration time) {
  constexpr double kBitPicosecondsPerByte = 8e12;
  if (time.ps <= 0) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * kBitPicosecondsPerByte / static_cast<double>(time.ps));
}

/// One QP of a flow, both ends.
struct Stream {
  std::uint32_t flow = 0;
  Qp* sender = nullptr;
  Qp* receiver = nullptr;
  std::uint64_t bytes_to_post = 0;
  std::uint32_t outstanding = 0;  ///< messages
  Psn counted_psn;                ///< what came before it is in the flow's delivered bytes
};

struct Flow {
  PlannedFlow plan;
  std::vector<std::uint32_t> dependents;
  std::uint32_t waits_for = 0;  ///< flows
  std::vector<Stream> streams;  ///< while it runs
  std::uint32_t open_streams = 0;
  std::uint32_t streams_received = 0;
  std::uint64_t delivered_bytes = 0;
  std::uint64_t delivered_before = 0;  ///< the end of the warm-up
  bool running = false;
  FlowResult result;

  bool unbounded() const { return plan.bytes == Workload::kUnbounded; }
};

/// Of a queue, by switch, port and priority.
struct QueueLength {
  std::array<unsigned, 3> queue;
  std::uint64_t bytes = 0;
};

class Experiment {
 public:
  Experiment(const Scenario& scenario, const RunOptions& options)
      : scenario_(scenario),
        options_(options),
        topology_(fabric::make_topology(scenario.topology)),
        network_(events_, topology_, switch_config(), largest_frame(), scenario.seed),
        pattern_(largest_message(), scenario.seed),
        sinks_(topology_.hosts.size() * largest_message()) {
    make_hosts();
    plan();
  }
  ~Experiment() {
    for (std::uint32_t i = 0; i < flows_.size(); ++i) close(flows_[i]);
    hosts_.clear();
  }
  Experiment(const Experiment&) = delete;
  Experiment& operator=(const Experiment&) = delete;

  Result run();

 private:
  std::uint32_t largest_frame() const { return largest_mtu() + kHeaderRoomBytes; }
  fabric::SwitchConfig switch_config() const {
    fabric::SwitchConfig config = scenario_.fabric_switch;
    config.max_frame_bytes = largest_frame();
    return config;
  }
  std::uint32_t largest_mtu() const {
    std::uint32_t bytes = 0;
    for (const HostSettings& host : scenario_.hosts) bytes = std::max(bytes, host.mtu_bytes);
    return bytes;
  }
  std::span<std::byte> sink_of(std::uint32_t host) const {
    const std::size_t bytes = pattern_.bytes().size();
    return sinks_.bytes().subspan(host * bytes, bytes);
  }
  std::uint32_t largest_message() const {
    std::uint32_t bytes = 0;
    for (const HostSettings& host : scenario_.hosts) bytes = std::max(bytes, host.message_bytes);
    return bytes;
  }

  void make_hosts();
  void plan();
  void start_due_flows();
  void start(std::uint32_t index);
  void post(std::uint32_t index, std::uint32_t stream);
  void on_completion(const Cqe& cqe);
  void on_sent(std::uint32_t index, std::uint32_t stream, const Cqe& cqe);
  void on_received(std::uint32_t index);
  void finish(std::uint32_t index);
  void close(Flow& flow);
  void count_delivered(Flow& flow);

  void end_warmup();
  void take_sample();
  bool is_done() const { return scenario_.until_done && flows_done_ == flows_.size(); }

  Result collect();
  void collect_flows(Result& result);
  void collect_switches(Result& result);
  void collect_queues(Result& result);
  void add_drops(Totals& total) const;
  Duration paused_of_hosts() const;
  /// Calls `look` for each queue that has ever held a frame, by switch, port and priority.
  template <class Look>
  void for_each_queue(Look look) const {
    for (std::uint32_t i = 0; i < network_.switches(); ++i) {
      const fabric::Switch& model = network_.fabric_switch(i).model();
      for (unsigned port = 0; port < model.ports(); ++port)
        for (unsigned priority = 0; priority < egress::kPriorities; ++priority)
          if (const fabric::QueueStatistics* queue = model.queue_statistics(port, priority))
            look(i, port, priority, *queue);
    }
  }

  const Scenario& scenario_;
  const RunOptions& options_;
  sim::EventQueue events_;
  const fabric::Topology topology_;
  sim::FabricNetwork network_;
  Pattern pattern_;
  const fabric::LargePages sinks_;  ///< one for each host
  std::vector<std::unique_ptr<LabHost>> hosts_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> starts_;  ///< flows that wait for a time only, by that time
  std::size_t next_start_ = 0;
  std::size_t flows_done_ = 0;
  std::uint64_t cnps_before_ = 0;
  std::uint64_t retransmitted_before_ = 0;
  Totals warmup_total_;  ///< what counts from the beginning: drops
  Duration paused_before_{};
  std::vector<Sample> samples_;  ///< their queues as they are found, until collect_queues() knows all
  std::vector<std::vector<QueueLength>> sampled_queues_;
  std::vector<std::uint64_t> sampled_bytes_;
};

void Experiment::make_hosts() {
  const auto count = static_cast<std::uint32_t>(topology_.hosts.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const Duration rtt = base_rtt(topology_, i, (i + count / 2) % count, scenario_.hosts[i].mtu_bytes);
    hosts_.push_back(std::make_unique<LabHost>(events_, network_.make_port(i, scenario_.payload), i, scenario_, rtt,
                                               pattern_, sink_of(i)));
    hosts_.back()->set_completion_handler([this](const Cqe& cqe) { on_completion(cqe); });
  }
}

void Experiment::plan() {
  for (PlannedFlow& planned : plan_flows(scenario_)) {
    const auto index = static_cast<std::uint32_t>(flows_.size());
    Flow& flow = flows_.emplace_back();
    flow.plan = std::move(planned);
    flow.waits_for = static_cast<std::uint32_t>(flow.plan.after.size());
    for (std::uint32_t before : flow.plan.after) flows_[before].dependents.push_back(index);
    if (flow.waits_for == 0) starts_.push_back(index);
    flow.result = {.source = flow.plan.source,
                   .destination = flow.plan.destination,
                   .bytes = flow.plan.bytes,
                   .unbounded = flow.unbounded(),
                   .start = flow.plan.start};
  }
  std::stable_sort(starts_.begin(), starts_.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return flows_[a].plan.start < flows_[b].plan.start; });
}

/// One event for all flows to come, at the first of them.
void Experiment::start_due_flows() {
  for (; next_start_ < starts_.size(); ++next_start_) {
    const Flow& flow = flows_[starts_[next_start_]];
    if (flow.plan.start > events_.now()) return events_.call_at(flow.plan.start, [this] { start_due_flows(); });
    start(starts_[next_start_]);
  }
}

void Experiment::start(std::uint32_t index) {
  Flow& flow = flows_[index];
  LabHost& from = *hosts_[flow.plan.source];
  LabHost& to = *hosts_[flow.plan.destination];
  const HostSettings& settings = from.settings();
  flow.result.start = events_.now();
  flow.running = true;
  if (!flow.unbounded())
    flow.result.ideal = ideal_fct(topology_, flow.plan.source, flow.plan.destination, flow.plan.bytes,
                                  settings.mtu_bytes, settings.message_bytes);
  const std::uint64_t share = flow.plan.bytes / settings.qps_per_flow;
  std::uint64_t rest = flow.plan.bytes % settings.qps_per_flow;
  for (std::uint32_t i = 0; i < settings.qps_per_flow; ++i) {
    const std::uint64_t bytes = share + (rest > 0 ? 1 : 0);
    rest -= rest > 0 ? 1 : 0;
    if (!flow.unbounded() && bytes == 0) break;
    Stream stream{.flow = index,
                  .sender = from.make_qp(),
                  .receiver = to.make_qp(),
                  .bytes_to_post = flow.unbounded() ? UINT64_MAX : bytes,
                  .counted_psn = Psn(0)};
    LabHost::connect(from, stream.sender, to, stream.receiver);
    if (!flow.dependents.empty()) to.post_receive(stream.receiver, index);
    flow.streams.push_back(stream);
  }
  flow.open_streams = static_cast<std::uint32_t>(flow.streams.size());
  for (std::uint32_t i = 0; i < flow.streams.size(); ++i) post(index, i);
}

/// Keeps the send queue full.
void Experiment::post(std::uint32_t index, std::uint32_t number) {
  Flow& flow = flows_[index];
  Stream& stream = flow.streams[number];
  LabHost& from = *hosts_[flow.plan.source];
  while (stream.bytes_to_post > 0 && stream.outstanding < kMessagesOutstanding) {
    const auto bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(stream.bytes_to_post, from.settings().message_bytes));
    if (!flow.unbounded()) stream.bytes_to_post -= bytes;
    const bool tell = stream.bytes_to_post == 0 && !flow.dependents.empty();
    from.post_write(stream.sender, *hosts_[flow.plan.destination], bytes, std::uint64_t{index} << 32 | number, tell);
    ++stream.outstanding;
  }
}

void Experiment::on_completion(const Cqe& cqe) {
  if (cqe.opcode == WcOpcode::kRecvRdmaWithImm || cqe.opcode == WcOpcode::kRecv)
    return on_received(static_cast<std::uint32_t>(cqe.wr_id));
  on_sent(static_cast<std::uint32_t>(cqe.wr_id >> 32), static_cast<std::uint32_t>(cqe.wr_id), cqe);
}

void Experiment::on_sent(std::uint32_t index, std::uint32_t number, const Cqe& cqe) {
  Flow& flow = flows_[index];
  if (!flow.running) return;
  if (cqe.status != WcStatus::kSuccess) {
    flow.result.failed = true;
    return finish(index);
  }
  Stream& stream = flow.streams[number];
  hosts_[flow.plan.destination]->note_written(cqe.byte_len);
  --stream.outstanding;
  count_delivered(flow);
  post(index, number);
  if (stream.outstanding > 0 || --flow.open_streams > 0) return;
  flow.result.end = events_.now();
  flow.delivered_bytes = flow.plan.bytes;
  finish(index);
}

void Experiment::on_received(std::uint32_t index) {
  Flow& flow = flows_[index];
  if (!flow.running || ++flow.streams_received < flow.streams.size()) return;
  for (std::uint32_t dependent : flow.dependents)
    if (--flows_[dependent].waits_for == 0) {
      const Instant at = std::max(events_.now(), flows_[dependent].plan.start);
      events_.call_at(at, [this, dependent] { start(dependent); });
    }
}

void Experiment::finish(std::uint32_t index) {
  ++flows_done_;
  close(flows_[index]);
}

void Experiment::close(Flow& flow) {
  if (!std::exchange(flow.running, false)) return;
  for (Stream& stream : flow.streams) {
    flow.result.retransmitted_packets += stream.sender->requester().retransmitted_packets();
    hosts_[flow.plan.source]->destroy_qp(stream.sender);
    hosts_[flow.plan.destination]->destroy_qp(stream.receiver);
  }
  flow.streams.clear();
}

/// In packets of the MTU: a short last one counts when the flow is done.
void Experiment::count_delivered(Flow& flow) {
  const std::uint32_t mtu = hosts_[flow.plan.source]->settings().mtu_bytes;
  for (Stream& stream : flow.streams) {
    const Psn psn = stream.receiver->responder().expected_psn();
    flow.delivered_bytes += static_cast<std::uint64_t>(psn.distance_from(stream.counted_psn)) * mtu;
    stream.counted_psn = psn;
  }
  if (!flow.unbounded()) flow.delivered_bytes = std::min(flow.delivered_bytes, flow.plan.bytes);
}

void Experiment::end_warmup() {
  add_drops(warmup_total_);
  for (std::uint32_t i = 0; i < network_.switches(); ++i)
    network_.fabric_switch(i).model().reset_statistics(events_.now());
  for (const std::unique_ptr<LabHost>& host : hosts_) {
    cnps_before_ += host->sim().counters().np_cnp_sent;
    retransmitted_before_ += host->sim().counters().retransmitted_packets;
  }
  paused_before_ = paused_of_hosts();
  for (Flow& flow : flows_) {
    count_delivered(flow);
    flow.delivered_before = flow.delivered_bytes;
  }
}

void Experiment::take_sample() {
  Sample sample{.at = events_.now(), .rate_bps = {}, .goodput_bps = {}, .queue_bytes = {}};
  sampled_bytes_.resize(flows_.size());
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    Flow& flow = flows_[i];
    count_delivered(flow);
    std::uint64_t rate = 0;
    for (const Stream& stream : flow.streams)
      rate += stream.sender->pacer.limited() ? stream.sender->pacer.rate_bps() : scenario_.topology.link_rate_bps;
    sample.rate_bps.push_back(rate);
    sample.goodput_bps.push_back(rate_of(flow.delivered_bytes - sampled_bytes_[i], scenario_.sample_interval));
    sampled_bytes_[i] = flow.delivered_bytes;
  }
  std::vector<QueueLength>& lengths = sampled_queues_.emplace_back();
  for_each_queue([&lengths](unsigned number, unsigned port, unsigned priority, const fabric::QueueStatistics& queue) {
    lengths.push_back({{number, port, priority}, queue.bytes()});
  });
  samples_.push_back(std::move(sample));
  events_.call_at(events_.now() + scenario_.sample_interval, [this] { take_sample(); });
}

Result Experiment::run() {
  const auto began = std::chrono::steady_clock::now();
  const Instant end = Instant{} + scenario_.duration;
  if (options_.prepare) options_.prepare(network_);
  if (scenario_.warmup.ps > 0) events_.call_at(Instant{} + scenario_.warmup, [this] { end_warmup(); });
  if (scenario_.sample_interval.ps > 0)
    events_.call_at(Instant{} + scenario_.sample_interval, [this] { take_sample(); });
  start_due_flows();
  for (std::uint64_t count = 1; !is_done() && events_.next_at() <= end; ++count) {
    events_.step();
    if (options_.progress && count % kEventsPerProgress == 0)
      options_.progress(events_.now(), end, network_.packet_hops());
  }
  if (!is_done()) events_.run_until(end);
  Result result = collect();
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

Result Experiment::collect() {
  Result result;
  result.ended = events_.now();
  result.samples = std::move(samples_);
  collect_flows(result);
  collect_switches(result);
  collect_queues(result);
  Totals& total = result.total;
  total.events = events_.events_run();
  total.packet_hops = network_.packet_hops();
  for (const std::unique_ptr<LabHost>& host : hosts_) {
    total.cnps += host->sim().counters().np_cnp_sent;
    total.retransmitted_packets += host->sim().counters().retransmitted_packets;
    if (scenario_.payload == fabric::Payload::kCarried) total.damaged_bytes += host->damaged_bytes(pattern_);
  }
  total.cnps -= cnps_before_;
  total.retransmitted_packets -= retransmitted_before_;
  return result;
}

void Experiment::collect_flows(Result& result) {
  const Instant from = Instant{} + scenario_.warmup;
  std::uint64_t delivered = 0;
  bool any_unbounded = false;
  for (const Flow& flow : flows_) any_unbounded |= flow.unbounded();
  double sum = 0;
  double squares = 0;
  double count = 0;
  for (Flow& flow : flows_) {
    count_delivered(flow);
    FlowResult& one = flow.result;
    const std::uint64_t bytes = flow.delivered_bytes - flow.delivered_before;
    delivered += bytes;
    const Instant end = one.done() ? one.end : result.ended;
    one.goodput_bps = rate_of(bytes, end - std::max(from, one.start));
    if (flow.unbounded()) one.bytes = bytes;
    for (const Stream& stream : flow.streams)
      one.retransmitted_packets += stream.sender->requester().retransmitted_packets();
    result.flows.push_back(one);
    if (any_unbounded != flow.unbounded()) continue;
    const auto rate = static_cast<double>(one.goodput_bps);
    sum += rate;
    squares += rate * rate;
    count += 1;
  }
  result.total.goodput_bps = rate_of(delivered, result.ended - from);
  result.total.jain = squares > 0 ? sum * sum / (count * squares) : 0;
}

void Experiment::collect_switches(Result& result) {
  Totals& total = result.total;
  total.drops = warmup_total_.drops;
  total.drops_by_reason = warmup_total_.drops_by_reason;
  add_drops(total);
  for (std::uint32_t i = 0; i < network_.switches(); ++i) {
    const fabric::Switch& model = network_.fabric_switch(i).model();
    for (unsigned port = 0; port < model.ports(); ++port)
      for (unsigned priority = 0; priority < egress::kPriorities; ++priority) {
        const fabric::PriorityCounters& counters = model.counters(port, priority);
        total.marks += counters.marks;
        total.pfc_pauses += counters.tx_pause;
        total.paused = total.paused + model.paused(port, priority, events_.now());
      }
  }
  total.paused = total.paused + paused_of_hosts() - paused_before_;
}

void Experiment::collect_queues(Result& result) {
  std::vector<std::array<unsigned, 3>> queues;
  for_each_queue([&](unsigned number, unsigned port, unsigned priority, const fabric::QueueStatistics& queue) {
    queues.push_back({number, port, priority});
    result.queues.push_back({.node = "switch" + std::to_string(number),
                             .port = port,
                             .priority = priority,
                             .mean_bytes = queue.mean_bytes(events_.now()),
                             .p99_bytes = queue.quantile_bytes(0.99, events_.now()),
                             .max_bytes = queue.max_bytes()});
  });
  for (std::size_t i = 0; i < result.samples.size(); ++i) {
    result.samples[i].queue_bytes.assign(queues.size(), 0);
    for (const QueueLength& length : sampled_queues_[i]) {
      const auto at = std::lower_bound(queues.begin(), queues.end(), length.queue);
      result.samples[i].queue_bytes[static_cast<std::size_t>(at - queues.begin())] = length.bytes;
    }
  }
}

Duration Experiment::paused_of_hosts() const {
  Duration paused{};
  for (const std::unique_ptr<LabHost>& host : hosts_)
    for (unsigned priority = 0; priority < egress::kPriorities; ++priority)
      paused = paused + host->sim().device().worker().scheduler().pauses().total(priority, events_.now());
  return paused;
}

/// By reason, over all switches since their statistics were reset.
void Experiment::add_drops(Totals& total) const {
  if (total.drops_by_reason.empty())
    for (std::size_t reason = 0; reason < fabric::kDropReasons; ++reason)
      total.drops_by_reason.emplace_back(fabric::name_of(static_cast<fabric::DropReason>(reason)), 0);
  for (std::uint32_t i = 0; i < network_.switches(); ++i) {
    const fabric::Switch& model = network_.fabric_switch(i).model();
    for (unsigned port = 0; port < model.ports(); ++port)
      for (unsigned priority = 0; priority < egress::kPriorities; ++priority)
        for (std::size_t reason = 0; reason < fabric::kDropReasons; ++reason) {
          const std::uint64_t drops = model.counters(port, priority).drops[reason];
          total.drops += drops;
          total.drops_by_reason[reason].second += drops;
        }
  }
}

}  // namespace

Result run(const Scenario& scenario, const RunOptions& options) { return Experiment(scenario, options).run(); }

}  // namespace roci::lab
