#include "tools/lab/scenario_reader.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/lab/scenario_files.h"
#include "tools/lab/scenario_keys.h"

namespace roci::lab {
namespace {

constexpr const char* kIncast = R"([topology]
kind = "star"
hosts = 17
link_rate = "100Gbps"
link_delay = "1us"
[switch]
buffer = "32MB"
kmin = "5KB"
kmax = "200KB"
pmax = 0.01
pfc = [3]
[host]
cc = "dcqcn,preset=paper"
mtu = 1024
qps_per_flow = 1
[[workload]]
kind = "incast"
receiver = 0
senders = "1-16"
size = "unbounded"
start = "0us"
[run]
duration = "150ms"
warmup = "50ms"
seed = 1
)";

/// The shortest scenario that is right; more can follow in [run].
constexpr const char* kShort = R"([topology]
hosts = 3
[[workload]]
kind = "permutation"
size = "1MB"
[run]
until = "done"
)";

class ScenarioReaderTest : public testing::Test {
 protected:
  Parsed<Scenario> read(const std::string& text, const ScenarioChanges& changes = {}) {
    return read_scenario(files_.add("s.toml", text), changes);
  }
  Scenario read_right(const std::string& text, const ScenarioChanges& changes = {}) {
    Parsed<Scenario> scenario = read(text, changes);
    EXPECT_EQ(scenario.wrong, "");
    return scenario.value;
  }
  std::string wrong_with(const std::string& text, const ScenarioChanges& changes = {}) {
    return files_.without_folder(read(text, changes).wrong);
  }

  ScenarioFiles files_;
};

TEST_F(ScenarioReaderTest, incast__all_keys) {
  const Scenario scenario = read_right(kIncast);
  EXPECT_EQ(scenario.name, "s.toml");
  EXPECT_EQ(scenario.topology.kind, fabric::TopologyKind::kStar);
  EXPECT_EQ(scenario.topology.hosts, 17u);
  EXPECT_EQ(scenario.topology.link_rate_bps, 100'000'000'000u);
  EXPECT_EQ(scenario.topology.link_delay, microseconds(1));
  EXPECT_EQ(scenario.fabric_switch.buffer.bytes, 32'000'000u);
  EXPECT_EQ(scenario.fabric_switch.red.kmin_bytes, 5'000u);
  EXPECT_EQ(scenario.fabric_switch.red.kmax_bytes, 200'000u);
  EXPECT_EQ(scenario.fabric_switch.red.pmax, 0.01);
  EXPECT_EQ(scenario.fabric_switch.pfc, 1u << 3);
  ASSERT_EQ(scenario.hosts.size(), 17u);
  for (const HostSettings& host : scenario.hosts) {
    EXPECT_EQ(host.cc_text, "dcqcn,preset=paper");
    EXPECT_NE(host.cc.make, nullptr);
    EXPECT_EQ(host.mtu_bytes, 1024u);
    EXPECT_EQ(host.qps_per_flow, 1u);
    EXPECT_EQ(host.egress.pfc, 1u << 3) << "as the switch";
    EXPECT_TRUE(host.egress.marks_data);
  }
  ASSERT_EQ(scenario.workloads.size(), 1u);
  const Workload& workload = scenario.workloads[0];
  EXPECT_EQ(workload.kind, WorkloadKind::kIncast);
  EXPECT_EQ(workload.receiver, 0u);
  EXPECT_EQ(workload.senders, (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(workload.size_bytes, Workload::kUnbounded);
  EXPECT_EQ(workload.start, Instant{});
  EXPECT_EQ(scenario.duration, milliseconds(150));
  EXPECT_FALSE(scenario.until_done);
  EXPECT_EQ(scenario.warmup, milliseconds(50));
  EXPECT_EQ(scenario.seed, 1u);
}

TEST_F(ScenarioReaderTest, host_override__changes_some_hosts_of_some_keys) {
  const Scenario scenario = read_right(std::string("[switch]\npfc = [3, 4]\n[host]\ncc = \"dcqcn\"\nmtu = 4096\n"
                                                   "[[host_override]]\nids = \"0-1\"\ncc = \"none\"\n"
                                                   "[[host_override]]\nids = [1]\npfc = \"none\"\nmtu = 256\n") +
                                       kShort);
  EXPECT_EQ(scenario.hosts[0].cc_text, "none");
  EXPECT_EQ(scenario.hosts[0].mtu_bytes, 4096u);
  EXPECT_EQ(scenario.hosts[0].egress.pfc, 1u << 3 | 1u << 4);
  EXPECT_TRUE(scenario.hosts[0].egress.marks_data) << "lossless";
  EXPECT_EQ(scenario.hosts[1].mtu_bytes, 256u);
  EXPECT_EQ(scenario.hosts[1].egress.pfc, 0u);
  EXPECT_FALSE(scenario.hosts[1].egress.marks_data) << "neither lossless nor controlled";
  EXPECT_EQ(scenario.hosts[2].cc_text, "dcqcn");
  EXPECT_EQ(scenario.hosts[2].mtu_bytes, 4096u);
}

TEST_F(ScenarioReaderTest, switch__keys_beyond_the_usual) {
  const fabric::SwitchConfig config =
      read_right(std::string("[switch]\nreserved = \"8KiB\"\nalpha = \"1/8\"\nlossy_alpha = 4\nxon_offset = \"2KB\"\n"
                             "headroom = \"50KB\"\nmark_at = \"enqueue\"\nmark_priorities = [3]\nwatchdog = \"drop\"\n"
                             "watchdog_detection = \"100ms\"\narbitration = \"arrival\"\ntrust = \"pcp\"\n"
                             "prio_tc = [0, 0, 0, 1, 1, 1, 2, 2]\ntc_bw = [50, 50, 0, 0, 0, 0, 0, 0]\n"
                             "max_frame = \"9KB\"\npause_quanta = 1000\n") +
                 kShort)
          .fabric_switch;
  EXPECT_EQ(config.buffer.reserved_bytes, 8192u);
  EXPECT_EQ(config.buffer.alpha, 0.125);
  EXPECT_EQ(config.buffer.lossy_alpha, 4);
  EXPECT_EQ(config.buffer.xon_offset_bytes, 2000u);
  EXPECT_EQ(config.headroom_bytes, 50'000u);
  EXPECT_EQ(config.mark_at, fabric::MarkAt::kEnqueue);
  EXPECT_EQ(config.red.priorities, 1u << 3);
  EXPECT_EQ(config.watchdog.action, fabric::WatchdogConfig::Action::kDrop);
  EXPECT_EQ(config.watchdog.detection, milliseconds(100));
  EXPECT_EQ(config.watchdog.restoration, milliseconds(200));
  EXPECT_EQ(config.arbitration, fabric::Arbitration::kArrival);
  EXPECT_EQ(config.trust, egress::Trust::kPcp);
  EXPECT_EQ(config.prio_tc[3], 1u);
  EXPECT_EQ(config.tc_bw[1], 50u);
  EXPECT_EQ(config.max_frame_bytes, 9000u);
  EXPECT_EQ(config.pause_quanta, 1000u);
}

TEST_F(ScenarioReaderTest, topology__a_fat_tree_is_full_unless_it_says_hosts) {
  const std::string rest = "[[workload]]\nkind = \"all-to-all\"\nsize = \"1KB\"\n[run]\nuntil = \"done\"\n";
  EXPECT_EQ(read_right("[topology]\nkind = \"fat-tree\"\nk = 6\n" + rest).topology.hosts, 54u);
  EXPECT_EQ(read_right("[topology]\nkind = \"fat-tree\"\nk = 6\nhosts = 50\n" + rest).hosts.size(), 50u);
}

TEST_F(ScenarioReaderTest, workload__lists_lie_beside_the_scenario) {
  files_.add("sizes.csv", "# two sizes\nbytes,probability\n1000,50%\n 5000 , 1\n");
  files_.add("list.csv", "src,dst,bytes,start_ns\r\n2,0,1000,1500\r\n");
  const Scenario scenario = read_right(
      "[topology]\nhosts = 3\n[[workload]]\nkind = \"poisson\"\nload = \"50%\"\ncdf = \"sizes.csv\"\nstart = \"1us\"\n"
      "[[workload]]\nkind = \"flows\"\nfile = \"list.csv\"\n[run]\nduration = \"1ms\"\nsample_interval = \"10us\"\n");
  ASSERT_EQ(scenario.workloads.size(), 2u);
  EXPECT_EQ(scenario.workloads[0].load, 0.5);
  EXPECT_EQ(scenario.workloads[0].start, Instant{} + microseconds(1));
  ASSERT_EQ(scenario.workloads[0].cdf.size(), 2u);
  EXPECT_EQ(scenario.workloads[0].cdf[0].bytes, 1000u);
  EXPECT_EQ(scenario.workloads[0].cdf[0].probability, 0.5);
  EXPECT_EQ(scenario.workloads[0].cdf[1].bytes, 5000u);
  ASSERT_EQ(scenario.workloads[1].flows.size(), 1u);
  EXPECT_EQ(scenario.workloads[1].flows[0].source, 2u);
  EXPECT_EQ(scenario.workloads[1].flows[0].destination, 0u);
  EXPECT_EQ(scenario.workloads[1].flows[0].bytes, 1000u);
  EXPECT_EQ(scenario.workloads[1].flows[0].start, Instant{} + nanoseconds(1500));
  EXPECT_EQ(scenario.sample_interval, microseconds(10));
}

TEST_F(ScenarioReaderTest, payload__is_carried_unless_it_is_elided) {
  EXPECT_EQ(read_right(kIncast).payload, fabric::Payload::kCarried);
  EXPECT_EQ(read_right(kIncast, {.cc = {}, .sets = {"run.payload=elided"}}).payload, fabric::Payload::kElided);
  EXPECT_EQ(wrong_with(kIncast, {.cc = {}, .sets = {"run.payload=elide"}}),
            "--set run.payload=elide: payload: \"elide\" is none of carried, elided, nearest: \"elided\"");
  const std::string faulty = std::string("[[fault]]\nscript = \"drop nth=1\"\n") + kShort;
  EXPECT_EQ(wrong_with(faulty, {.cc = {}, .sets = {"run.payload=elided"}}),
            "s.toml:1: [[fault]] needs payload = \"carried\" in [run]");
}

TEST_F(ScenarioReaderTest, fault__a_script_or_a_file_for_some_hosts_or_all) {
  files_.add("loss.faults", "drop opcode=ack nth=2\n");
  const Scenario scenario = read_right(std::string("[[fault]]\nfile = \"loss.faults\"\nhosts = 2\n[[fault]]\nscript = "
                                                   "\"\"\"\ndrop rate=1%\ndelay=1us opcode=send\n\"\"\"\n") +
                                       kShort);
  ASSERT_EQ(scenario.faults.size(), 2u);
  ASSERT_EQ(scenario.faults[0].script.rows.size(), 1u);
  EXPECT_EQ(scenario.faults[0].script.rows[0].action, FaultAction::kDrop);
  EXPECT_EQ(scenario.faults[0].script.rows[0].nth, 2u);
  EXPECT_EQ(scenario.faults[0].hosts, std::vector<std::uint32_t>{2});
  ASSERT_EQ(scenario.faults[1].script.rows.size(), 2u);
  EXPECT_EQ(scenario.faults[1].script.rows[0].rate, 0.01);
  EXPECT_EQ(scenario.faults[1].script.rows[1].delay_most, microseconds(1));
  EXPECT_EQ(scenario.faults[1].hosts, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST_F(ScenarioReaderTest, incast__all_others_send_unless_it_says_who) {
  const Scenario scenario = read_right(
      "[topology]\nhosts = 4\n[[workload]]\nkind = \"incast\"\nreceiver = 2\n"
      "size = \"1KB\"\nstagger = \"5us\"\n[run]\nuntil = \"done\"\n");
  EXPECT_EQ(scenario.workloads[0].senders, (std::vector<std::uint32_t>{0, 1, 3}));
  EXPECT_EQ(scenario.workloads[0].stagger, microseconds(5));
}

TEST_F(ScenarioReaderTest, changes__replace_what_the_file_says) {
  const Scenario scenario =
      read_right(kIncast, {.cc = {},
                           .sets = {"switch.kmin=10KB", "workload.0.size=2MB", "topology.hosts=33", "switch.pfc=3,4",
                                    "run.seed=7", "run.sample_interval=1us", "switch.kmin=20KB"}});
  EXPECT_EQ(scenario.fabric_switch.red.kmin_bytes, 20'000u) << "the later of two";
  EXPECT_EQ(scenario.workloads[0].size_bytes, 2'000'000u);
  EXPECT_EQ(scenario.hosts.size(), 33u);
  EXPECT_EQ(scenario.fabric_switch.pfc, 1u << 3 | 1u << 4);
  EXPECT_EQ(scenario.seed, 7u);
  EXPECT_EQ(scenario.sample_interval, microseconds(1)) << "which the file does not have";
}

TEST_F(ScenarioReaderTest, changes__cc_is_of_all_hosts) {
  const Scenario scenario = read_right(std::string("[[host_override]]\nids = 1\ncc = \"none\"\nmtu = 512\n") + kShort,
                                       {.cc = "dcqcn,preset=mlx", .sets = {}});
  for (const HostSettings& host : scenario.hosts) EXPECT_EQ(host.cc_text, "dcqcn,preset=mlx");
  EXPECT_EQ(scenario.hosts[1].mtu_bytes, 512u);
}

struct WrongScenario {
  const char* before;  ///< stands before the short scenario
  const char* message;
};

TEST_F(ScenarioReaderTest, wrong__names_line_and_what_is_allowed) {
  const WrongScenario table[] = {
      {"[swich]\n",
       "s.toml:1: no table is called \"swich\", nearest: \"switch\"; there are topology, switch, host, host_override, "
       "workload, fault, run"},
      {"hosts = 3\n",
       "s.toml:1: no table is called \"hosts\", nearest: \"host\"; there are topology, switch, host, host_override, "
       "workload, fault, run"},
      {"switch = 3\n", "s.toml:1: switch is a table: [switch]"},
      {"[fault]\n", "s.toml:1: fault is a list of tables: [[fault]]"},
      {"[switch]\n\nkmn = \"5KB\"\n", "s.toml:3: [switch] has no key \"kmn\", nearest: \"kmin\""},
      {"[switch]\nkmin = 5000\n", "s.toml:2: kmin: \"5000\" has no unit: KB, B, MB, KiB, MiB, as in 5000KB"},
      {"[switch]\nkmin = \"5kB\"\n",
       "s.toml:2: kmin: \"5kB\": no unit is called \"kB\", nearest: \"KB\"; there are KB, B, MB, KiB, MiB"},
      {"[switch]\nkmin = \"1MB\"\n", "s.toml:1: [switch] needs kmin <= kmax"},
      {"[switch]\npmax = 1.5\n", "s.toml:2: pmax: \"1.5\" is not a fraction: 0 to 1, 0% to 100%, or such as 1/256"},
      {"[switch]\npfc = [8]\n", "s.toml:2: pfc: not a list of priorities from 0 to 7, as in 3 or 3,4, nor none"},
      {"[switch]\nbuffer = \"100KB\"\npfc = [3]\n",
       "s.toml:1: [switch] needs a larger buffer: reserves and headroom of lossless priorities leave nothing to share"},
      {"[switch]\nalpha = 0\n", "s.toml:2: alpha: \"0\" is not a number above 0 and up to 1024, as in 1/8, 0.125 or 8"},
      {"[switch]\nmark_at = \"dequeu\"\n",
       "s.toml:2: mark_at: \"dequeu\" is none of dequeue, enqueue, nearest: \"dequeue\""},
      {"[switch]\nwatchdog = \"on\"\n", "s.toml:2: watchdog: \"on\" is none of off, drop, ignore, nearest: \"off\""},
      {"[switch]\ntc_bw = [50, 40, 0, 0, 0, 0, 0, 0]\n",
       "s.toml:2: tc_bw: the percentages add up to 90, not to 100 or 0"},
      {"[switch]\npause_quanta = 1\n", "s.toml:2: pause_quanta: \"1\" is not within 2 to 65535"},
      {"[switch]\nkmin = 1979-05-27\n", "s.toml:2: kmin: takes a string, a number or a list of them"},
      {"[host]\nmtu = 1500\n", "s.toml:2: mtu: \"1500\" is none of 256, 512, 1024, 2048, 4096"},
      {"[host]\ncc = \"dcqn\"\n",
       "s.toml:2: cc: no congestion control is called \"dcqn\", nearest: \"dcqcn\"; there are none, fixed, dcqcn"},
      {"[host]\nretry_cnt = 8\n", "s.toml:2: retry_cnt: \"8\" is not within 0 to 7"},
      {"[host]\ndscp = 64\n", "s.toml:2: dscp: not a DSCP from 0 to 63"},
      {"[[host_override]]\nmtu = 256\n", "s.toml:1: [[host_override]] needs ids, as in ids = \"0-7,9\""},
      {"[[host_override]]\nids = \"0-3\"\n", "s.toml:2: ids: there is no host 3; the 3 hosts are 0-2"},
      {"[[host_override]]\nids = \"2-1\"\n", "s.toml:2: ids: \"2-1\" is not a list of hosts, as in 0-7,9"},
      {"[[host_override]]\nids = \"0-1,1\"\n", "s.toml:2: ids: host 1 is there twice"},
      {"[[host_override]]\nids = 1\ncss = \"none\"\n",
       "s.toml:3: [[host_override]] has no key \"css\", nearest: \"cc\""},
      {"[[workload]]\nsize = \"1MB\"\n", "s.toml:1: [[workload]] needs a kind, as in kind = \"incast\""},
      {"[[workload]]\nkind = \"ring\"\n",
       "s.toml:2: kind: \"ring\" is none of incast, permutation, all-to-all, allreduce-ring, allreduce-tree, poisson, "
       "flows"},
      {"[[workload]]\nkind = \"incast\"\nload = 1\nsize = \"1B\"\n",
       "s.toml:3: incast has no key \"load\"; it has receiver, senders, size, start, stagger"},
      {"[[workload]]\nkind = \"incast\"\n", "s.toml:1: incast needs size"},
      {"[[workload]]\nkind = \"incast\"\nreceiver = 3\nsize = \"1B\"\n",
       "s.toml:3: receiver: there is no host 3; the 3 hosts are 0-2"},
      {"[[workload]]\nkind = \"incast\"\nsenders = \"0-1\"\nsize = \"1B\"\n",
       "s.toml:3: senders: host 0 is the receiver"},
      {"[[workload]]\nkind = \"incast\"\nsize = \"unbounded\"\n",
       "s.toml:3: size: an unbounded flow is never done, but [run] has until = \"done\""},
      {"[[workload]]\nkind = \"allreduce-ring\"\nsize = \"unbounded\"\n",
       "s.toml:3: size: \"unbounded\" is not a number with a unit (KB, B, MB, KiB, MiB), such as 1KB"},
      {"[[workload]]\nkind = \"all-to-all\"\nhosts = \"1\"\nsize = \"1B\"\n", "s.toml:3: hosts: needs two or more"},
      {"[[workload]]\nkind = \"poisson\"\nload = 0\n", "s.toml:3: load: a load is more than 0"},
      {"[[workload]]\nkind = \"poisson\"\nload = 0.5\ncdf = \"good.csv\"\n",
       "s.toml:1: poisson needs a duration in [run]: flows arrive until then"},
      {"[[workload]]\nkind = \"flows\"\nfile = \"missing.csv\"\n", "s.toml:3: file: there is no file missing.csv"},
      {"[[fault]]\nfile = \"missing.faults\"\n", "s.toml:2: file: there is no file missing.faults"},
      {"[[fault]]\nhosts = 0\n", "s.toml:1: [[fault]] needs a script or a file"},
      {"[[fault]]\nscript = \"drop\"\nfile = \"x\"\n", "s.toml:3: [[fault]] has a script or a file, not both"},
      {"[[fault]]\nscirpt = \"drop\"\n", "s.toml:2: [[fault]] has no key \"scirpt\", nearest: \"script\""},
      {"[[fault]]\nscript = \"drop\\ndorp\"\n", "s.toml:2: script:2: no action is called \"dorp\", nearest: \"drop\""},
  };
  files_.add("good.csv", "bytes,probability\n1000,1\n");
  for (const WrongScenario& row : table) EXPECT_EQ(wrong_with(std::string(row.before) + kShort), row.message);
}

TEST_F(ScenarioReaderTest, wrong__tables_that_are_needed) {
  const WrongScenario table[] = {
      {"", "s.toml: no [topology]"},
      {"[topology]\nkind = \"star\"\n", "s.toml:1: [topology] needs hosts"},
      {"[topology]\nhosts = 2\n", "s.toml: [run] needs duration, or until = \"done\""},
      {"[topology]\nhosts = 2\n[run]\nseed = 1\n", "s.toml:3: [run] needs duration, or until = \"done\""},
      {"[topology]\nhosts = 2\n[run]\nuntil = \"1ms\"\n",
       "s.toml:4: until: \"1ms\" is not done; for a time there is duration"},
      {"[topology]\nhosts = 2\n[run]\nduration = \"1ms\"\nwarmup = \"1ms\"\n",
       "s.toml:3: [run] needs a warmup shorter than the duration, 1ms"},
      {"[topology]\nhosts = 2\n[run]\nduration = \"1ms\"\n", "s.toml: no [[workload]]"},
      {"[topology]\nhosts = 2\nleaves = 2\n", "s.toml:3: leaves: for kind = \"leaf-spine\" only"},
      {"[topology]\nhosts = 2\nk = 4\n", "s.toml:3: k: for kind = \"fat-tree\" only"},
      {"[topology]\nhosts = 2\nuplink_rate = \"1Gbps\"\n", "s.toml:3: uplink_rate: a star has no uplinks"},
      {"[topology]\nkind = \"fat-tree\"\nk = 5\n", "s.toml:1: [topology] needs an even k"},
      {"[topology]\nkind = \"leaf-spine\"\nhosts = 2\nleaves = 3\n", "s.toml:1: [topology] needs a host for each leaf"},
      {"[topology]\nhosts = 1\n", "s.toml:2: hosts: \"1\" is not within 2 to 65535"},
      {"[topology\n", "s.toml:1: Error while parsing table header: expected ']', saw '\\n'"},
  };
  for (const WrongScenario& row : table) EXPECT_EQ(wrong_with(row.before), row.message);
  EXPECT_EQ(files_.without_folder(read_scenario(files_.path("none.toml")).wrong),
            "none.toml: File could not be opened for reading");
}

TEST_F(ScenarioReaderTest, wrong__changes_are_named) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"kmin=5KB", "--set kmin=5KB: not of the form table.key=value"},
      {"switch.kmin", "--set switch.kmin: not of the form table.key=value"},
      {"swich.kmin=5KB",
       "--set swich.kmin=5KB: no table is called \"swich\", nearest: \"switch\"; there are topology, switch, host, "
       "host_override, workload, fault, run"},
      {"switch.kmn=5KB", "--set switch.kmn=5KB: [switch] has no key \"kmn\", nearest: \"kmin\""},
      {"switch.kmin=5", "--set switch.kmin=5: kmin: \"5\" has no unit: KB, B, MB, KiB, MiB, as in 5KB"},
      {"workload.size=1MB",
       "--set workload.size=1MB: [[workload]] is a list: workload.INDEX.KEY, the first has index 0"},
      {"workload.1.size=1MB", "--set workload.1.size=1MB: s.toml has 1 [[workload]], and the first has index 0"},
  };
  for (const auto& [set, message] : table) EXPECT_EQ(wrong_with(kShort, {.cc = {}, .sets = {set}}), message);
  EXPECT_EQ(wrong_with(kShort, {.cc = "dcqcn,g=2", .sets = {}}).substr(0, 26), "--cc dcqcn,g=2: cc: dcqcn:");
}

TEST_F(ScenarioReaderTest, wrong__lists_name_their_own_lines) {
  const WrongScenario cdfs[] = {
      {"", "c.csv: no header bytes,probability"},
      {"bytes,percent\n", "c.csv:1: \"bytes,percent\" is not the header bytes,probability"},
      {"\nbytes,probability\n1000\n", "c.csv:3: 1 values, not the 2 of bytes,probability"},
      {"bytes,probability\n1KB,1\n", "c.csv:2: bytes: \"1KB\" is not a whole number from 0 to 1099511627776"},
      {"bytes,probability\n1,0.5\n2,0.5\n", "c.csv:3: probability: not more than in the row before"},
      {"bytes,probability\n2,0.5\n1,1\n", "c.csv:3: bytes: less than in the row before"},
      {"bytes,probability\n2,0.5\n", "c.csv: the last row's probability is not 1"},
      {"bytes,probability\n0,1\n", "c.csv: all flows are empty"},
  };
  for (const WrongScenario& row : cdfs) {
    files_.add("c.csv", row.before);
    EXPECT_EQ(wrong_with(std::string("[[workload]]\nkind = \"poisson\"\nload = 1\ncdf = \"c.csv\"\n") + kShort),
              row.message);
  }
  const WrongScenario lists[] = {
      {"src,dst,bytes,start_ns\n", "f.csv: no flows"},
      {"src,dst,bytes,start_ns\n0,3,1,0\n", "f.csv:2: dst: \"3\" is not a whole number from 0 to 2"},
      {"src,dst,bytes,start_ns\n0,1,0,0\n", "f.csv:2: bytes: \"0\" is not a whole number from 1 to 1099511627776"},
      {"src,dst,bytes,start_ns\n1,1,1,0\n", "f.csv:2: a flow from host 1 to itself"},
  };
  for (const WrongScenario& row : lists) {
    files_.add("f.csv", row.before);
    EXPECT_EQ(wrong_with(std::string("[[workload]]\nkind = \"flows\"\nfile = \"f.csv\"\n") + kShort), row.message);
  }
}

TEST(ScenarioDocs, name_every_key) {
  std::ifstream file(std::string(ROCI_DOCS_DIR) + "/lab.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string_view> names{"ids", "script", "kind", "cdf", "file"};
  for (const auto& key : topology_keys()) names.push_back(key.name);
  for (const auto& key : switch_keys()) names.push_back(key.name);
  for (const auto& key : host_keys()) names.push_back(key.name);
  for (const auto& key : workload_keys()) names.push_back(key.name);
  for (const auto& key : run_keys()) names.push_back(key.name);
  for (const std::string_view name : names)
    EXPECT_NE(text.find("`" + std::string(name) + "`"), std::string::npos) << name;
}

}  // namespace
}  // namespace roci::lab
