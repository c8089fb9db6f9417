// The rows of `roci bench`, with the targets of each.
#include "tools/roci/bench/table.h"

namespace roci::bench {
namespace {

constexpr std::string_view kLimitGroup = "the limit";
constexpr std::string_view kRivalGroup = "what one would use instead";
constexpr std::string_view kBandwidthGroup = "bandwidth";
constexpr std::string_view kRateGroup = "8-byte writes";
constexpr std::string_view kLatencyGroup = "latency";
constexpr std::string_view kDeviceGroup = "at rest";

constexpr std::string_view kCopyAndCrc = "a copy and a CRC on each side, and the way between two cores";
constexpr std::string_view kKernel = "the kernel's TCP: its copies and its wake-ups";
constexpr std::string_view kPacketSockets =
    "af_packet: the kernel copies each frame twice and is called for each burst";
constexpr std::string_view kXdpSockets = "AF_XDP: the kernel copies each frame and is called for each burst";
constexpr std::string_view kBothStacks = "the way through both stacks: build, ICRC, ring, check, completion";
constexpr std::string_view kTargetAwake = "both stacks; the target's background thread, awake while requests come fast";
constexpr std::string_view kWakeUp =
    "waking the background thread, on a core that the peer keeps busy if there are two";

Comparison beside(std::string_view of, std::string_view name) { return {of, name, Demand::kNone, 0, 0}; }
Comparison at_least(double factor, std::string_view of, std::string_view name) {
  return {of, name, Demand::kAtLeast, factor, 0};
}
Comparison at_most(double factor, std::string_view of, std::string_view name, double plus = 0) {
  return {of, name, Demand::kAtMost, factor, plus};
}
Comparison at_most(double bound) { return {"", "", Demand::kAtMost, 0, bound}; }

constexpr std::string_view kCable = "the bare cable";
constexpr std::string_view kTcp = "the TCP stream";

void add_limits(std::vector<Row>& rows) {
  rows.push_back({"copy", kLimitGroup, "memcpy of 4 KiB, one core", Unit::kGBps, "core", {}, "the core"});
  rows.push_back({"crc", kLimitGroup, "ICRC of 4 KiB, one core", Unit::kGBps, "core", {}, "the core"});
  rows.push_back(
      {"core-4154", kLimitGroup, "copy and ICRC of a 4154-byte frame, one core", Unit::kGbps, "core", {}, "the core"});
  rows.push_back({"cable-4154",
                  kLimitGroup,
                  "bare cable, 4154-byte frames",
                  Unit::kGbps,
                  "cable-4154",
                  {at_least(kLeastYardstick, kCoreRow, "one core's limit")},
                  kCopyAndCrc});
  rows.push_back(
      {"cable-1082", kLimitGroup, "bare cable, 1082-byte frames", Unit::kGbps, "cable-1082", {}, kCopyAndCrc});
  rows.push_back({"cable-82", kLimitGroup, "bare cable, 82-byte frames", Unit::kMessages, "cable-82", {}, kCopyAndCrc});
  rows.push_back({"cable-both",
                  kLimitGroup,
                  "bare cable, 4154-byte frames, both ways together",
                  Unit::kGbps,
                  "cable-both",
                  {beside("cable-4154", "one way")},
                  "each core copies and checks twice as much"});
  rows.push_back({"cable-latency",
                  kLimitGroup,
                  "bare cable, half a round trip of an 82-byte frame",
                  Unit::kMicroseconds,
                  "cable-latency",
                  {},
                  "the way of a cache line between the two cores"});
  rows.push_back({"memif",
                  kLimitGroup,
                  "DPDK's memif by itself, 4154-byte frames",
                  Unit::kGbps,
                  "memif",
                  {beside("cable-4154", kCable)},
                  "two copies and a CRC on each side, and the way between two cores"});
  rows.push_back({"raw-packet",
                  kLimitGroup,
                  "DPDK's af_packet by itself on veth, 4154-byte frames",
                  Unit::kGbps,
                  "raw-packet",
                  {},
                  kPacketSockets});
  rows.push_back({"raw-xdp",
                  kLimitGroup,
                  "DPDK's AF_XDP by itself on veth, 2106-byte frames",
                  Unit::kGbps,
                  "raw-xdp",
                  {},
                  kXdpSockets});
}

void add_rivals(std::vector<Row>& rows) {
  rows.push_back({"tcp",
                  kRivalGroup,
                  "iperf3, one TCP stream over veth, MTU 9000",
                  Unit::kGbps,
                  "iperf3",
                  {beside("cable-4154", kCable)},
                  kKernel});
  rows.push_back({"tcp-latency",
                  kRivalGroup,
                  "sockperf, half a round trip over TCP on veth",
                  Unit::kMicroseconds,
                  "sockperf",
                  {beside("cable-latency", kCable)},
                  kKernel});
  rows.push_back({"tcp-latency-99", kRivalGroup, "the same, 99 %", Unit::kMicroseconds, "sockperf", {}, kKernel});
  rows.push_back({"ucx",
                  kRivalGroup,
                  "UCX over TCP, tag_bw of 64 KiB",
                  Unit::kGbps,
                  "ucx",
                  {beside("cable-4154", kCable)},
                  kKernel});
  rows.push_back(
      {"ucx-rate", kRivalGroup, "UCX over TCP, tag_bw of 8 bytes", Unit::kMessages, "ucx-rate", {}, kKernel});
  rows.push_back({"ucx-latency",
                  kRivalGroup,
                  "UCX over TCP, tag_lat of 8 bytes",
                  Unit::kMicroseconds,
                  "ucx-latency",
                  {},
                  kKernel});
}

void add_bandwidth(std::vector<Row>& rows) {
  const auto add = [&](std::string_view id, std::string_view what, std::vector<Comparison> comparisons) {
    rows.push_back({id, kBandwidthGroup, what, Unit::kGbps, id, std::move(comparisons), ""});
  };
  const Comparison cable = at_least(0.6, "cable-4154", kCable);
  const Comparison tcp = at_least(4, "tcp", kTcp);
  const Comparison small_frames = at_least(0.4, "cable-1082", kCable);
  const Comparison both = at_least(0.55, "cable-both", "the bare cable's sum");
  add("write-64k", "ib_write_bw, 64 KiB", {cable, tcp, beside("ucx", "UCX over TCP")});
  add("send-64k", "ib_send_bw, 64 KiB", {cable, tcp});
  add("read-64k", "ib_read_bw, 64 KiB", {at_least(0.9, "write-64k", "writes"), beside("cable-4154", kCable)});
  add("write-1m", "ib_write_bw, 1 MiB", {beside("cable-4154", kCable), beside("tcp", kTcp)});
  add("send-1m", "ib_send_bw, 1 MiB", {beside("cable-4154", kCable), beside("tcp", kTcp)});
  add("read-1m", "ib_read_bw, 1 MiB", {beside("write-1m", "writes"), beside("cable-4154", kCable)});
  add("write-both", "ib_write_bw -b, 64 KiB", {both});
  add("send-both", "ib_send_bw -b, 64 KiB", {both});
  add("read-both", "ib_read_bw -b, 64 KiB", {both});
  add("write-1024", "ib_write_bw, 64 KiB, MTU 1024", {small_frames, beside("tcp", kTcp)});
  add("send-1024", "ib_send_bw, 64 KiB, MTU 1024", {small_frames, beside("tcp", kTcp)});
  add("read-1024", "ib_read_bw, 64 KiB, MTU 1024", {at_least(0.9, "write-1024", "writes")});
  rows.push_back({"write-packet",
                  kBandwidthGroup,
                  "ib_write_bw, 64 KiB, af_packet on veth",
                  Unit::kGbps,
                  "write-packet",
                  {at_least(0.7, "raw-packet", "af_packet by itself"), beside("tcp", kTcp)},
                  kPacketSockets});
  rows.push_back({"write-xdp",
                  kBandwidthGroup,
                  "ib_write_bw, 64 KiB, MTU 2048, AF_XDP on veth",
                  Unit::kGbps,
                  "write-xdp",
                  {at_least(0.7, "raw-xdp", "AF_XDP by itself"), beside("tcp", kTcp)},
                  kXdpSockets});
}

void add_rates(std::vector<Row>& rows) {
  const auto add = [&](std::string_view id, std::string_view what, std::vector<Comparison> comparisons) {
    rows.push_back({id, kRateGroup, what, Unit::kMessages, id, std::move(comparisons), ""});
  };
  add("rate-1", "ib_write_bw, 1 QP", {at_least(0.12, "cable-82", kCable), beside("ucx-rate", "UCX over TCP")});
  add("rate-1-list", "ib_write_bw -l 16, 1 QP", {at_least(0.2, "cable-82", kCable)});
  add("rate-16", "ib_write_bw, 16 QPs", {beside("rate-1", "one QP")});
  add("rate-16-list", "ib_write_bw -l 16, 16 QPs", {beside("rate-1-list", "one QP")});
  add("rate-256", "ib_write_bw, 256 QPs", {at_least(0.75, "rate-1", "one QP")});
  add("rate-256-list", "ib_write_bw -l 16, 256 QPs", {at_least(0.75, "rate-1-list", "one QP")});
}

void add_latencies(std::vector<Row>& rows) {
  const auto add = [&](std::string_view id, std::string_view what, std::string_view contestant,
                       std::vector<Comparison> comparisons, std::string_view limit) {
    rows.push_back({id, kLatencyGroup, what, Unit::kMicroseconds, contestant, std::move(comparisons), limit});
  };
  add("send-latency", "ib_send_lat, 2 bytes", "send-latency",
      {at_most(1, "cable-latency", kCable, 0.5), beside("tcp-latency", "TCP")}, kBothStacks);
  add("send-latency-99", "the same, 99 %", "send-latency", {at_most(3, "send-latency", "the typical one")},
      kBothStacks);
  add("send-latency-999", "the same, 99.9 %", "send-latency", {beside("send-latency", "the typical one")},
      "what else runs on the machine");
  add("read-latency", "ib_read_lat, 2 bytes, a round trip", "read-latency", {at_most(2, "send-latency", "ib_send_lat")},
      kTargetAwake);
  add("read-latency-99", "the same, 99 %", "read-latency", {beside("read-latency", "the typical one")}, kTargetAwake);
  add("read-latency-999", "the same, 99.9 %", "read-latency", {beside("read-latency", "the typical one")},
      "what else runs on the machine");
  add("atomic-latency", "ib_atomic_lat, a round trip", "atomic-latency", {at_most(2, "send-latency", "ib_send_lat")},
      kTargetAwake);
  add("atomic-latency-99", "the same, 99 %", "atomic-latency", {beside("atomic-latency", "the typical one")},
      kTargetAwake);
  add("atomic-latency-999", "the same, 99.9 %", "atomic-latency", {beside("atomic-latency", "the typical one")},
      "what else runs on the machine");
  add("write-latency", "ib_write_lat, 2 bytes", "write-latency",
      {at_most(15), beside("send-latency", "ib_send_lat"), beside("tcp-latency", "TCP")}, kWakeUp);
  add("write-latency-99", "the same, 99 %", "write-latency", {at_most(40)}, kWakeUp);
  add("write-latency-999", "the same, 99.9 %", "write-latency", {beside("write-latency", "the typical one")},
      "the scheduler's slice, 4 ms");
}

void add_device(std::vector<Row>& rows) {
  rows.push_back({"idle",
                  kDeviceGroup,
                  "a process that waits with its device open",
                  Unit::kCore,
                  "idle",
                  {at_most(0.01)},
                  "how often the background thread looks up"});
  rows.push_back({"qp-memory",
                  kDeviceGroup,
                  "a connected QP beyond its own queues",
                  Unit::kBytes,
                  "qp-memory",
                  {at_most(4096)},
                  "the objects of a QP and 16 READ resources"});
  rows.push_back({"first-byte",
                  kDeviceGroup,
                  "from the start of ib_send_bw to its first packet",
                  Unit::kSeconds,
                  "first-byte",
                  {at_most(0.3)},
                  "loading the program, its own set-up, then the cable"});
}

std::vector<Row> make_rows() {
  std::vector<Row> rows;
  add_limits(rows);
  add_rivals(rows);
  add_bandwidth(rows);
  add_rates(rows);
  add_latencies(rows);
  add_device(rows);
  return rows;
}

}  // namespace

const std::vector<Row>& rows() {
  static const std::vector<Row> all = make_rows();
  return all;
}

}  // namespace roci::bench
