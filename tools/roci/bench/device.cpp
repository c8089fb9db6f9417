// The bare cable, and what a device costs at rest.
#include <memory>

#include "drivers/live/clock.h"
#include "tools/roci/bench/bare_cable.h"
#include "tools/roci/bench/contestants.h"
#include "tools/roci/bench/pair.h"
#include "tools/roci/bench/qp_memory.h"

namespace roci::bench {
namespace {

/// ib_write_bw sleeps for a second before it says who it is.
constexpr const char* kProgram = "ib_send_bw";

constexpr bool kOneCore = true;

double seconds_of(Duration duration) { return static_cast<double>(duration.ps) / 1e12; }

Reading measure_core(Duration length) {
  const OneCore core = measure_one_core(length);
  return {{{"copy", core.copy_gb_per_s}, {"crc", core.crc_gb_per_s}, {"core-4154", core.gbps_4154}}, std::nullopt};
}

void add_cable(std::vector<Contestant>& list, const Effort& effort) {
  using Kind = CableTest::Kind;
  const Duration length = effort.quick ? milliseconds(50) : milliseconds(300);
  const auto add = [&](std::string_view row, const CableTest& test, double (*figure)(const CableFigures&)) {
    list.push_back({row, "the bare cable", "", [=] {
                      return Reading{{{row, figure(measure_bare_cable(test, length))}}, std::nullopt};
                    }});
  };
  list.push_back({"core", "one core", "", [length] { return measure_core(length); }, kOneCore});
  add("cable-4154", {Kind::kOneWay, 4154}, [](const CableFigures& of) { return payload_gbps(of.frames_per_s, 4154); });
  add("cable-1082", {Kind::kOneWay, 1082}, [](const CableFigures& of) { return payload_gbps(of.frames_per_s, 1082); });
  add("cable-82", {Kind::kOneWay, 82}, [](const CableFigures& of) { return of.frames_per_s; });
  add("cable-both", {Kind::kBothWays, 4154},
      [](const CableFigures& of) { return payload_gbps(of.frames_per_s, 4154); });
  add("cable-latency", {Kind::kPingPong, 82}, [](const CableFigures& of) { return of.half_round_trip_us; });
}

/// A server of perftest that nobody talks to has its device open and does nothing.
Reading measure_idle(Duration length) {
  const std::unique_ptr<Child> server = start_server(on_a_cable(), {kProgram, "-F"}, free_tcp_port());
  // It has only just opened the device.
  constexpr Duration kSettle = milliseconds(200);
  if (server->wait(kSettle)) throw Failure("the waiting server ended");
  const Duration cpu_before = server->cpu_time();
  const Instant before = live_now();
  if (server->wait(length)) throw Failure("the waiting server ended");
  const Duration cpu_time = server->cpu_time() - cpu_before;
  return {{{"idle", seconds_of(cpu_time) / seconds_of(live_now() - before)}}, std::nullopt};
}

Reading measure_first_byte() {
  constexpr Duration kAtMost = seconds(20);
  constexpr Duration kLook = milliseconds(1);
  // It sends for long enough to be seen, and is ended then.
  const Command program{kProgram, "-F", "-N", "-s", "65536", "-n", "200000"};
  const unsigned port = free_tcp_port();
  const std::unique_ptr<Child> server = start_server(on_a_cable(), program, port);
  const Instant start = live_now();
  const std::unique_ptr<Child> client = start_client(on_a_cable(), program, port);
  while (packets_sent(client->pid()).value_or(0) == 0) {
    if (client->wait(kLook)) throw Failure("the client ended before its first packet was seen");
    if (live_now() - start > kAtMost) throw Failure("the client sends nothing");
  }
  return {{{"first-byte", seconds_of(live_now() - start)}}, std::nullopt};
}

std::string need_perftest() { return is_installed(kProgram) ? "" : "ib_send_bw is not installed (package perftest)"; }

}  // namespace

void add_device(std::vector<Contestant>& list, const Effort& effort) {
  const Duration idle = effort.quick ? milliseconds(500) : seconds(2);
  list.push_back({"idle", "an idle process", need_perftest(), [idle] { return measure_idle(idle); }, kOneCore});
  list.push_back({"qp-memory", "memory of a QP", "",
                  [] {
                    return Reading{{{"qp-memory", measure_qp_memory()}}, {}};
                  },
                  kOneCore});
  list.push_back({"first-byte", "the first packet", need_perftest(), [] { return measure_first_byte(); }});
}

std::vector<Contestant> contestants(const Effort& effort) {
  std::vector<Contestant> list;
  add_cable(list, effort);
  add_ports(list, effort);
  add_rivals(list, effort);
  add_perftest(list, effort);
  add_device(list, effort);
  return list;
}

}  // namespace roci::bench
