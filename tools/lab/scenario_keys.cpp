#include "tools/lab/scenario_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <span>

#include "cc/options.h"
#include "cc/registry.h"
#include "stack/base/nearest_name.h"
#include "stack/egress/settings_text.h"

namespace roci::lab {
namespace {

constexpr std::int64_t kSecondPs = seconds(1).ps;
constexpr std::int64_t kLongestPs = seconds(1'000'000).ps;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostMessageBytes = std::uint64_t{1} << 31;
constexpr std::uint64_t kMostRateBps = 8'000'000'000'000;
constexpr std::uint64_t kMostHosts = 65'535;
constexpr std::uint64_t kMostPackets = (1u << 23) - 1;
constexpr double kMostAlpha = 1024;

template <class T, class Value>
Key<T> key(std::string_view name) {
  return {name, [](std::string_view text, T* target) { return Value::set(text, target); }};
}

/// A value of a part of what the table is read into.
template <auto kPart, class Value>
struct PartValue {
  template <class T>
  static std::string set(std::string_view text, T* whole) {
    return Value::set(text, &(whole->*kPart));
  }
};

template <auto kMember>
using SizeValue = CcSizeValue<kMember, 0, UINT32_MAX>;

template <auto kMember, std::int64_t kLeastPs = 0, std::int64_t kMostPs = kSecondPs>
using TimeValue = CcTimeValue<kMember, kLeastPs, kMostPs>;

/// More than 0; one part in so many may be written 1/N.
template <auto kMember>
struct FactorValue {
  template <class T>
  static std::string set(std::string_view text, T* target) {
    double value = 0;
    if (const auto fraction = parse_fraction(text)) {
      value = fraction.value;
    } else {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc{} || end != text.data() + text.size()) value = 0;
    }
    if (!(value > 0 && value <= kMostAlpha))
      return fmt::format("\"{}\" is not a number above 0 and up to {}, as in 1/8, 0.125 or 8", text, kMostAlpha);
    target->*kMember = value;
    return {};
  }
};

template <class E>
struct Choice {
  std::string_view name;
  E value;
};

template <class E>
std::string choose(std::string_view text, std::span<const Choice<E>> choices, E* out) {
  std::vector<std::string_view> names;
  for (const Choice<E>& choice : choices) {
    names.push_back(choice.name);
    if (choice.name != text) continue;
    *out = choice.value;
    return {};
  }
  return fmt::format("\"{}\" is none of {}{}", text, fmt::join(names, ", "), nearest_hint(text, names));
}

template <class T, class E>
Key<T> choice_key(std::string_view name, E T::*member, std::span<const Choice<E>> choices) {
  return {name, [=](std::string_view text, T* target) { return choose(text, choices, &(target->*member)); }};
}

constexpr std::array<Choice<fabric::TopologyKind>, 4> kTopologyKinds{{{"star", fabric::TopologyKind::kStar},
                                                                      {"dumbbell", fabric::TopologyKind::kDumbbell},
                                                                      {"leaf-spine", fabric::TopologyKind::kLeafSpine},
                                                                      {"fat-tree", fabric::TopologyKind::kFatTree}}};
constexpr std::array<Choice<fabric::Payload>, 2> kPayloads{
    {{"carried", fabric::Payload::kCarried}, {"elided", fabric::Payload::kElided}}};
constexpr std::array<Choice<fabric::MarkAt>, 2> kMarkAts{
    {{"dequeue", fabric::MarkAt::kDequeue}, {"enqueue", fabric::MarkAt::kEnqueue}}};
constexpr std::array<Choice<fabric::Arbitration>, 3> kArbitrations{
    {{"lossless-round-robin", fabric::Arbitration::kLosslessRoundRobin},
     {"round-robin", fabric::Arbitration::kRoundRobin},
     {"arrival", fabric::Arbitration::kArrival}}};
constexpr std::array<Choice<fabric::WatchdogConfig::Action>, 3> kWatchdogActions{
    {{"off", fabric::WatchdogConfig::Action::kOff},
     {"drop", fabric::WatchdogConfig::Action::kDrop},
     {"ignore", fabric::WatchdogConfig::Action::kIgnore}}};
constexpr std::array<Choice<WorkloadKind>, 7> kWorkloadKinds{{{"incast", WorkloadKind::kIncast},
                                                              {"permutation", WorkloadKind::kPermutation},
                                                              {"all-to-all", WorkloadKind::kAllToAll},
                                                              {"allreduce-ring", WorkloadKind::kAllreduceRing},
                                                              {"allreduce-tree", WorkloadKind::kAllreduceTree},
                                                              {"poisson", WorkloadKind::kPoisson},
                                                              {"flows", WorkloadKind::kFlows}}};

/// What a switch and a host have in common, by the name that the egress gives it.
Key<fabric::SwitchConfig> egress_key_of_switch(const egress::SettingText& setting) {
  return {setting.name, [&setting](std::string_view text, fabric::SwitchConfig* config) {
            egress::Settings settings{
                .pfc = config->pfc, .trust = config->trust, .prio_tc = config->prio_tc, .tc_bw = config->tc_bw};
            const std::string wrong = setting.apply(text, &settings);
            config->pfc = settings.pfc;
            config->trust = settings.trust;
            config->prio_tc = settings.prio_tc;
            config->tc_bw = settings.tc_bw;
            return wrong;
          }};
}

std::string set_mark_priorities(std::string_view text, fabric::SwitchConfig* config) {
  for (const egress::SettingText& setting : egress::setting_texts()) {
    if (setting.name != "pfc") continue;
    egress::Settings settings;
    const std::string wrong = setting.apply(text, &settings);
    if (wrong.empty()) config->red.priorities = settings.pfc;
    return wrong;
  }
  return {};
}

std::string set_pmax(std::string_view text, fabric::SwitchConfig* config) {
  const auto fraction = parse_fraction(text);
  if (fraction) config->red.pmax = fraction.value;
  return fraction.wrong;
}

std::vector<Key<fabric::SwitchConfig>> make_switch_keys() {
  using fabric::BufferConfig;
  using fabric::RedConfig;
  using fabric::SwitchConfig;
  using fabric::WatchdogConfig;
  std::vector<Key<SwitchConfig>> keys{
      key<SwitchConfig, PartValue<&SwitchConfig::buffer, CcSizeValue<&BufferConfig::bytes, 1, kMostBytes>>>("buffer"),
      key<SwitchConfig, PartValue<&SwitchConfig::buffer, SizeValue<&BufferConfig::reserved_bytes>>>("reserved"),
      key<SwitchConfig, PartValue<&SwitchConfig::buffer, FactorValue<&BufferConfig::alpha>>>("alpha"),
      key<SwitchConfig, PartValue<&SwitchConfig::buffer, FactorValue<&BufferConfig::lossy_alpha>>>("lossy_alpha"),
      key<SwitchConfig, PartValue<&SwitchConfig::buffer, SizeValue<&BufferConfig::xon_offset_bytes>>>("xon_offset"),
      key<SwitchConfig, CcSizeValue<&SwitchConfig::headroom_bytes, 1, kMostBytes>>("headroom"),
      key<SwitchConfig, PartValue<&SwitchConfig::red, SizeValue<&RedConfig::kmin_bytes>>>("kmin"),
      key<SwitchConfig, PartValue<&SwitchConfig::red, SizeValue<&RedConfig::kmax_bytes>>>("kmax"),
      {"pmax", set_pmax},
      {"mark_priorities", set_mark_priorities},
      choice_key<SwitchConfig, fabric::MarkAt>("mark_at", &SwitchConfig::mark_at, kMarkAts),
      {"watchdog",
       [](std::string_view text, SwitchConfig* config) {
         return choose<WatchdogConfig::Action>(text, kWatchdogActions, &config->watchdog.action);
       }},
      key<SwitchConfig, PartValue<&SwitchConfig::watchdog, TimeValue<&WatchdogConfig::detection, 1, kLongestPs>>>(
          "watchdog_detection"),
      key<SwitchConfig, PartValue<&SwitchConfig::watchdog, TimeValue<&WatchdogConfig::restoration, 1, kLongestPs>>>(
          "watchdog_restoration"),
      choice_key<SwitchConfig, fabric::Arbitration>("arbitration", &SwitchConfig::arbitration, kArbitrations),
      key<SwitchConfig, CcSizeValue<&SwitchConfig::max_frame_bytes, fabric::Frame::kMinBytes, 65'535>>("max_frame"),
      key<SwitchConfig, CcCountValue<&SwitchConfig::pause_quanta, 2, 65'535>>("pause_quanta"),
  };
  constexpr std::array<std::string_view, 4> kShared{"pfc", "trust", "prio_tc", "tc_bw"};
  for (const egress::SettingText& setting : egress::setting_texts())
    if (std::find(kShared.begin(), kShared.end(), setting.name) != kShared.end())
      keys.push_back(egress_key_of_switch(setting));
  return keys;
}

std::string set_cc(std::string_view text, HostSettings* host) {
  auto cc = parse_cc(text);
  if (!cc) return cc.wrong;
  host->cc = std::move(cc.value);
  host->cc_text = text;
  return {};
}

std::string set_mtu(std::string_view text, HostSettings* host) {
  constexpr std::array<std::uint32_t, 5> kMtus{256, 512, 1024, 2048, 4096};
  const auto mtu = parse_count(text);
  if (!mtu || std::find(kMtus.begin(), kMtus.end(), mtu.value) == kMtus.end())
    return fmt::format("\"{}\" is none of {}", text, fmt::join(kMtus, ", "));
  host->mtu_bytes = static_cast<std::uint32_t>(mtu.value);
  return {};
}

std::vector<Key<HostSettings>> make_host_keys() {
  std::vector<Key<HostSettings>> keys{
      {"cc", set_cc},
      {"mtu", set_mtu},
      key<HostSettings, CcCountValue<&HostSettings::qps_per_flow, 1, 1024>>("qps_per_flow"),
      key<HostSettings, CcCountValue<&HostSettings::window_packets, 1, kMostPackets>>("window"),
      key<HostSettings, CcCountValue<&HostSettings::ack_every_packets, 1, kMostPackets>>("ack_every"),
      key<HostSettings, CcSizeValue<&HostSettings::message_bytes, 1, kMostMessageBytes>>("message"),
      key<HostSettings, CcCountValue<&HostSettings::timeout, 0, 31>>("timeout"),
      key<HostSettings, CcCountValue<&HostSettings::retry_cnt, 0, 7>>("retry_cnt"),
  };
  for (const egress::SettingText& setting : egress::setting_texts())
    keys.push_back({setting.name, [&setting](std::string_view text, HostSettings* host) {
                      return setting.apply(text, &host->egress);
                    }});
  return keys;
}

std::string set_size(std::string_view text, Workload* workload) {
  if (text == "unbounded" && workload->kind != WorkloadKind::kAllreduceRing &&
      workload->kind != WorkloadKind::kAllreduceTree) {
    workload->size_bytes = Workload::kUnbounded;
    return {};
  }
  return CcSizeValue<&Workload::size_bytes, 1, kMostBytes>::set(text, workload);
}

std::string set_start(std::string_view text, Workload* workload) {
  const auto time = parse_time(text);
  if (time) workload->start = Instant{} + time.value;
  return time.wrong;
}

std::string set_load(std::string_view text, Workload* workload) {
  const auto load = parse_fraction(text);
  if (!load) return load.wrong;
  if (load.value == 0) return "a load is more than 0";
  workload->load = load.value;
  return {};
}

template <auto kMember>
std::string set_hosts(std::string_view text, Workload* workload) {
  auto hosts = parse_hosts(text);
  if (hosts) workload->*kMember = std::move(hosts.value);
  return hosts.wrong;
}

std::vector<WorkloadKey> make_workload_keys() {
  using Kind = WorkloadKind;
  const std::vector<Kind> pairwise{Kind::kIncast, Kind::kPermutation, Kind::kAllToAll};
  const std::vector<Kind> sized{Kind::kIncast, Kind::kPermutation, Kind::kAllToAll, Kind::kAllreduceRing,
                                Kind::kAllreduceTree};
  const std::vector<Kind> started{Kind::kIncast,        Kind::kPermutation,   Kind::kAllToAll,
                                  Kind::kAllreduceRing, Kind::kAllreduceTree, Kind::kPoisson};
  const std::vector<Kind> among{Kind::kPermutation, Kind::kAllToAll, Kind::kAllreduceRing, Kind::kAllreduceTree,
                                Kind::kPoisson};
  return {
      {key<Workload, CcCountValue<&Workload::receiver, 0, kMostHosts>>("receiver"), {Kind::kIncast}},
      {{"senders", set_hosts<&Workload::senders>}, {Kind::kIncast}},
      {{"hosts", set_hosts<&Workload::hosts>}, among},
      {{"size", set_size}, sized, true},
      {{"start", set_start}, started},
      {key<Workload, TimeValue<&Workload::stagger, 0, kLongestPs>>("stagger"), {Kind::kIncast}},
      {{"load", set_load}, {Kind::kPoisson}, true},
      {{"cdf", nullptr}, {Kind::kPoisson}, true},
      {{"file", nullptr}, {Kind::kFlows}, true},
  };
}

std::string set_until(std::string_view text, Scenario* scenario) {
  if (text != "done") return fmt::format("\"{}\" is not done; for a time there is duration", text);
  scenario->until_done = true;
  return {};
}

}  // namespace

const std::vector<Key<fabric::TopologyConfig>>& topology_keys() {
  using Config = fabric::TopologyConfig;
  static const std::vector<Key<Config>> kKeys{
      choice_key<Config, fabric::TopologyKind>("kind", &Config::kind, kTopologyKinds),
      key<Config, CcCountValue<&Config::hosts, 2, kMostHosts>>("hosts"),
      key<Config, CcRateValue<&Config::link_rate_bps, 1, kMostRateBps>>("link_rate"),
      key<Config, TimeValue<&Config::link_delay>>("link_delay"),
      key<Config, CcCountValue<&Config::leaves, 1, 4096>>("leaves"),
      key<Config, CcCountValue<&Config::spines, 1, 4096>>("spines"),
      key<Config, CcRateValue<&Config::uplink_rate_bps, 1, kMostRateBps>>("uplink_rate"),
      key<Config, CcCountValue<&Config::k, 2, 62>>("k"),
  };
  return kKeys;
}

const std::vector<Key<fabric::SwitchConfig>>& switch_keys() {
  static const auto kKeys = make_switch_keys();
  return kKeys;
}

const std::vector<Key<HostSettings>>& host_keys() {
  static const auto kKeys = make_host_keys();
  return kKeys;
}

const std::vector<WorkloadKey>& workload_keys() {
  static const auto kKeys = make_workload_keys();
  return kKeys;
}

const std::vector<Key<Scenario>>& run_keys() {
  static const std::vector<Key<Scenario>> kKeys{
      key<Scenario, TimeValue<&Scenario::duration, 1, kLongestPs>>("duration"),
      {"until", set_until},
      key<Scenario, TimeValue<&Scenario::warmup, 0, kLongestPs>>("warmup"),
      key<Scenario, CcCountValue<&Scenario::seed, 0, UINT64_MAX>>("seed"),
      key<Scenario, TimeValue<&Scenario::sample_interval, 0, kLongestPs>>("sample_interval"),
      choice_key<Scenario, fabric::Payload>("payload", &Scenario::payload, kPayloads),
  };
  return kKeys;
}

bool WorkloadKey::belongs_to(WorkloadKind kind) const {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

std::string set_workload_kind(std::string_view value, Workload* workload) {
  return choose<WorkloadKind>(value, kWorkloadKinds, &workload->kind);
}

std::string_view name_of(WorkloadKind kind) { return kWorkloadKinds[static_cast<std::size_t>(kind)].name; }

Parsed<std::vector<std::uint32_t>> parse_hosts(std::string_view text) {
  const std::string wrong = fmt::format("\"{}\" is not a list of hosts, as in 0-7,9", text);
  std::vector<std::uint32_t> hosts;
  std::set<std::uint32_t> seen;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const auto first = parse_count(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_count(part.substr(dash + 1));
    if (!first || !last || first.value > last.value || last.value > kMostHosts) return {{}, wrong};
    for (auto host = static_cast<std::uint32_t>(first.value); host <= last.value; ++host) {
      if (!seen.insert(host).second) return {{}, fmt::format("host {} is there twice", host)};
      hosts.push_back(host);
    }
    if (comma == std::string_view::npos) return {hosts, {}};
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace roci::lab
