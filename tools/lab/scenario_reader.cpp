#include "tools/lab/scenario_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "drivers/faults/fault_script.h"
#include "drivers/sim/fabric_network.h"
#include "stack/base/nearest_name.h"
#include "tools/lab/scenario_keys.h"
#include "tools/lab/scenario_lists.h"

namespace roci::lab {
namespace {

namespace fs = std::filesystem;

/// Ends the reading; read_scenario() returns its text.
struct Wrong {
  std::string text;
};

[[noreturn]] void fail(std::string_view where, std::string_view what) {
  throw Wrong{fmt::format("{}: {}", where, what)};
}

[[noreturn]] void fail_unknown_key(const Entry& entry, std::string_view table,
                                   const std::vector<std::string_view>& names) {
  const std::string hint = nearest_hint(entry.key, names);
  fail(entry.where, fmt::format("{} has no key \"{}\"{}", table, entry.key,
                                hint.empty() ? fmt::format("; it has {}", fmt::join(names, ", ")) : hint));
}

template <class T>
void read_entry(const Entry& entry, std::string_view table, const std::vector<Key<T>>& keys, T* target) {
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key<T>& k) { return k.name == entry.key; });
  if (key == keys.end()) {
    std::vector<std::string_view> names;
    for (const Key<T>& known : keys) names.push_back(known.name);
    fail_unknown_key(entry, table, names);
  }
  const std::string wrong = key->set(entry.text, target);
  if (!wrong.empty()) fail(entry.where, entry.key + ": " + wrong);
}

template <class T>
void read_section(const Section* section, const std::vector<Key<T>>& keys, T* target) {
  if (section == nullptr) return;
  for (const Entry& entry : section->entries) read_entry(entry, fmt::format("[{}]", section->name), keys, target);
}

class ScenarioReader {
 public:
  explicit ScenarioReader(const Document& document)
      : document_(document), folder_(fs::path(document.path).parent_path()) {}

  Scenario read() {
    scenario_.name = fs::path(document_.path).filename().string();
    read_topology();
    read_switch();
    read_hosts();
    read_run();
    for (const Section* section : document_.all("workload")) read_workload(*section);
    if (scenario_.workloads.empty()) fail(document_.path, "no [[workload]]");
    for (const Section* section : document_.all("fault")) read_fault(*section);
    return std::move(scenario_);
  }

 private:
  std::uint32_t hosts() const { return scenario_.topology.hosts; }
  /// Where a table stands, or the file if it has none.
  const std::string& place_of(const Section* section) const {
    return section == nullptr ? document_.path : section->where;
  }
  /// Of the file that the entry names, which is there.
  std::string path_of(const Entry& entry) const;

  void read_topology();
  void check_topology_keys(const Section& section) const;
  void read_switch();
  void read_hosts();
  void read_override(const Section& section);
  void read_run();
  void read_workload(const Section& section);
  void read_workload_entry(const Entry& entry, Workload* workload);
  void finish_incast(const Section& section, Workload* workload) const;
  void read_fault(const Section& section);
  void check_host(const Entry& entry, std::uint32_t host) const;
  std::vector<std::uint32_t> hosts_in(const Entry& entry) const;

  const Document& document_;
  const fs::path folder_;
  Scenario scenario_;
};

std::string ScenarioReader::path_of(const Entry& entry) const {
  const fs::path path = folder_ / entry.text;
  std::error_code failed;
  if (fs::is_regular_file(path, failed)) return path.string();
  fail(entry.where, fmt::format("{}: there is no file {}", entry.key, path.string()));
}

void ScenarioReader::check_host(const Entry& entry, std::uint32_t host) const {
  if (host < hosts()) return;
  fail(entry.where,
       fmt::format("{}: there is no host {}; the {} hosts are 0-{}", entry.key, host, hosts(), hosts() - 1));
}

std::vector<std::uint32_t> ScenarioReader::hosts_in(const Entry& entry) const {
  const auto found = parse_hosts(entry.text);
  if (!found) fail(entry.where, entry.key + ": " + found.wrong);
  for (const std::uint32_t host : found.value) check_host(entry, host);
  return found.value;
}

void ScenarioReader::read_topology() {
  const Section* section = document_.one("topology");
  fabric::TopologyConfig& topology = scenario_.topology;
  read_section(section, topology_keys(), &topology);
  if (section == nullptr) fail(document_.path, "no [topology]");
  check_topology_keys(*section);
  if (section->find("hosts") == nullptr) {
    if (topology.kind != fabric::TopologyKind::kFatTree) fail(section->where, "[topology] needs hosts");
    topology.hosts = fabric::fat_tree_hosts(topology.k);
  }
  if (const char* wrong = fabric::check(topology)) fail(section->where, fmt::format("[topology] {}", wrong));
}

/// Keys of other kinds would be without effect.
void ScenarioReader::check_topology_keys(const Section& section) const {
  const fabric::TopologyKind kind = scenario_.topology.kind;
  for (const Entry& entry : section.entries) {
    if ((entry.key == "leaves" || entry.key == "spines") && kind != fabric::TopologyKind::kLeafSpine)
      fail(entry.where, fmt::format("{}: for kind = \"leaf-spine\" only", entry.key));
    if (entry.key == "k" && kind != fabric::TopologyKind::kFatTree)
      fail(entry.where, "k: for kind = \"fat-tree\" only");
    if (entry.key == "uplink_rate" && kind == fabric::TopologyKind::kStar)
      fail(entry.where, "uplink_rate: a star has no uplinks");
  }
}

void ScenarioReader::read_switch() {
  const Section* section = document_.one("switch");
  read_section(section, switch_keys(), &scenario_.fabric_switch);
  const std::vector<fabric::TopologySwitch> switches = fabric::make_topology(scenario_.topology).switches;
  for (std::uint32_t i = 0; i < switches.size(); ++i)
    if (const char* wrong =
            fabric::Switch::check(scenario_.fabric_switch, sim::switch_ports(scenario_.fabric_switch, switches[i], i)))
      fail(place_of(section), fmt::format("[switch] {}", wrong));
}

void ScenarioReader::read_hosts() {
  HostSettings common;
  common.egress.pfc = scenario_.fabric_switch.pfc;
  read_section(document_.one("host"), host_keys(), &common);
  scenario_.hosts.assign(hosts(), common);
  for (const Section* section : document_.all("host_override")) read_override(*section);
  for (HostSettings& host : scenario_.hosts) host.egress.marks_data = host.cc.make != nullptr || host.egress.pfc != 0;
}

void ScenarioReader::read_override(const Section& section) {
  const Entry* ids = section.find("ids");
  if (ids == nullptr) fail(section.where, "[[host_override]] needs ids, as in ids = \"0-7,9\"");
  for (const std::uint32_t host : hosts_in(*ids))
    for (const Entry& entry : section.entries)
      if (&entry != ids) read_entry(entry, "[[host_override]]", host_keys(), &scenario_.hosts[host]);
}

void ScenarioReader::read_run() {
  constexpr Duration kWithoutEnd = seconds(1'000'000);
  const Section* section = document_.one("run");
  read_section(section, run_keys(), &scenario_);
  const bool bounded = section != nullptr && section->find("duration") != nullptr;
  if (!bounded && !scenario_.until_done) fail(place_of(section), "[run] needs duration, or until = \"done\"");
  if (!bounded) scenario_.duration = kWithoutEnd;
  if (scenario_.warmup >= scenario_.duration)
    fail(section->where,
         fmt::format("[run] needs a warmup shorter than the duration, {}", time_text(scenario_.duration)));
}

void ScenarioReader::read_workload(const Section& section) {
  Workload workload;
  const Entry* kind = section.find("kind");
  if (kind == nullptr) fail(section.where, "[[workload]] needs a kind, as in kind = \"incast\"");
  if (const std::string wrong = set_workload_kind(kind->text, &workload); !wrong.empty())
    fail(kind->where, "kind: " + wrong);
  for (const Entry& entry : section.entries)
    if (&entry != kind) read_workload_entry(entry, &workload);
  for (const WorkloadKey& key : workload_keys())
    if (key.needed && key.belongs_to(workload.kind) && section.find(key.name) == nullptr)
      fail(section.where, fmt::format("{} needs {}", name_of(workload.kind), key.name));
  if (workload.kind == WorkloadKind::kIncast) finish_incast(section, &workload);
  if (const Entry* among = section.find("hosts"); among != nullptr && workload.hosts.size() < 2)
    fail(among->where, "hosts: needs two or more");
  if (scenario_.until_done && section.find("size") != nullptr && workload.size_bytes == Workload::kUnbounded)
    fail(section.find("size")->where, "size: an unbounded flow is never done, but [run] has until = \"done\"");
  if (workload.kind == WorkloadKind::kPoisson &&
      (document_.one("run") == nullptr || document_.one("run")->find("duration") == nullptr))
    fail(section.where, "poisson needs a duration in [run]: flows arrive until then");
  scenario_.workloads.push_back(std::move(workload));
}

void ScenarioReader::read_workload_entry(const Entry& entry, Workload* workload) {
  const std::vector<WorkloadKey>& keys = workload_keys();
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const WorkloadKey& k) {
    return k.name == entry.key && k.belongs_to(workload->kind);
  });
  if (key == keys.end()) {
    std::vector<std::string_view> names;
    for (const WorkloadKey& known : keys)
      if (known.belongs_to(workload->kind)) names.push_back(known.name);
    fail_unknown_key(entry, name_of(workload->kind), names);
  }
  if (entry.key == "cdf") {
    auto cdf = read_cdf(path_of(entry));
    if (!cdf) throw Wrong{cdf.wrong};
    workload->cdf = std::move(cdf.value);
  } else if (entry.key == "file") {
    auto flows = read_flows(path_of(entry), hosts());
    if (!flows) throw Wrong{flows.wrong};
    workload->flows = std::move(flows.value);
  } else if (const std::string wrong = key->set(entry.text, workload); !wrong.empty()) {
    fail(entry.where, entry.key + ": " + wrong);
  }
  if (entry.key == "receiver") check_host(entry, workload->receiver);
  if (entry.key == "senders" || entry.key == "hosts") hosts_in(entry);
}

void ScenarioReader::finish_incast(const Section& section, Workload* workload) const {
  const Entry* senders = section.find("senders");
  if (senders == nullptr) {
    for (std::uint32_t host = 0; host < hosts(); ++host)
      if (host != workload->receiver) workload->senders.push_back(host);
    return;
  }
  if (std::find(workload->senders.begin(), workload->senders.end(), workload->receiver) != workload->senders.end())
    fail(senders->where, fmt::format("senders: host {} is the receiver", workload->receiver));
}

void ScenarioReader::read_fault(const Section& section) {
  LinkFaults faults;
  bool has_script = false;
  for (const Entry& entry : section.entries) {
    if (entry.key == "hosts") {
      faults.hosts = hosts_in(entry);
    } else if (entry.key == "script" || entry.key == "file") {
      if (std::exchange(has_script, true)) fail(entry.where, "[[fault]] has a script or a file, not both");
      std::string name = entry.where + ": script";
      std::string text = entry.text;
      if (entry.key == "file") {
        name = path_of(entry);
        std::ifstream file(name);
        if (!file) fail(entry.where, fmt::format("file: {} cannot be opened", name));
        text.assign(std::istreambuf_iterator<char>(file), {});
      }
      std::string error;
      if (!parse_fault_script(text, name, &faults.script, &error)) throw Wrong{error};
    } else {
      fail_unknown_key(entry, "[[fault]]", {"script", "file", "hosts"});
    }
  }
  if (!has_script) fail(section.where, "[[fault]] needs a script or a file");
  if (section.find("hosts") == nullptr) {
    faults.hosts.resize(hosts());
    std::iota(faults.hosts.begin(), faults.hosts.end(), 0);
  }
  // What a fault damages would not be noticed.
  if (scenario_.payload == fabric::Payload::kElided)
    fail(section.where, "[[fault]] needs payload = \"carried\" in [run]");
  scenario_.faults.push_back(std::move(faults));
}

}  // namespace

Parsed<Scenario> read_scenario(const std::string& path, const ScenarioChanges& changes) {
  const auto document = read_document(path, changes);
  if (!document) return {{}, document.wrong};
  try {
    return {ScenarioReader(document.value).read(), {}};
  } catch (const Wrong& wrong) {
    return {{}, wrong.text};
  }
}

}  // namespace roci::lab
