// What one would use instead of Rocinante: TCP over a veth pair between two network namespaces.
#include <fmt/format.h>

#include <memory>

#include "tools/roci/bench/contestants.h"
#include "tools/roci/bench/veth.h"

namespace roci::bench {
namespace {

constexpr Duration kAtMost = seconds(60);

/// The client's output. The server is ended if it does not end by itself.
std::string client_output(VethPair& net, unsigned port, const Command& server, const Command& client) {
  Child listener(joined(net.at_server(), server));
  listener.wait_until_listening(port);
  return run_to_end(joined(net.at_client(), client), kAtMost);
}

template <class Value>
Value required(const std::optional<Value>& value, std::string_view program) {
  if (!value.has_value()) throw Failure(fmt::format("{}: its output is not understood", program));
  return *value;
}

Reading measure_iperf3(VethPair& net) {
  const unsigned port = free_tcp_port();
  const std::string number = fmt::format("{}", port);
  const std::string output = client_output(net, port, {"iperf3", "-s", "-1", "-p", number},
                                           {"iperf3", "-c", VethPair::kServerAddress, "-p", number, "-t", "1", "-J"});
  return {{{"tcp", required(parse_iperf3(output), "iperf3")}}, std::nullopt};
}

Reading measure_sockperf(VethPair& net) {
  const unsigned port = free_tcp_port();
  const std::string number = fmt::format("{}", port);
  const std::string output = client_output(
      net, port, {"sockperf", "server", "--tcp", "-i", VethPair::kServerAddress, "-p", number},
      {"sockperf", "ping-pong", "--tcp", "-i", VethPair::kServerAddress, "-p", number, "-t", "1", "-m", "14"});
  const Latency latency = required(parse_sockperf(output), "sockperf");
  return {{{"tcp-latency", latency.typical}, {"tcp-latency-99", latency.percent_99}}, std::nullopt};
}

struct UcxTest {
  std::string_view row;
  const char* test;
  unsigned bytes;
  unsigned iterations;
};

Reading measure_ucx(VethPair& net, const UcxTest& test) {
  const unsigned port = free_tcp_port();
  const Command program{"env", "UCX_TLS=tcp", "ucx_perftest", "-p", fmt::format("{}", port)};
  const std::string output =
      client_output(net, port, program,
                    joined(program, {VethPair::kServerAddress, "-t", test.test, "-s", fmt::format("{}", test.bytes),
                                     "-n", fmt::format("{}", test.iterations), "-f", "-v"}));
  if (test.row == "ucx-latency")
    return {{{test.row, required(parse_ucx(output, "50.0_percentile_lat"), "ucx_perftest")}}, std::nullopt};
  const double rate = required(parse_ucx(output, "overall_mr"), "ucx_perftest");
  return {{{test.row, test.row == "ucx" ? rate * test.bytes * 8 / 1e9 : rate}}, std::nullopt};
}

std::string need(std::string_view program, std::string_view package) {
  return is_installed(program) ? "" : fmt::format("{} is not installed (package {})", program, package);
}

}  // namespace

void add_rivals(std::vector<Contestant>& list, const Effort& effort) {
  // The largest MTU of common NICs.
  constexpr unsigned kJumboMtuBytes = 9000;
  const auto net = std::make_shared<LazyVethPair>(kJumboMtuBytes);
  const unsigned part = effort.quick ? 10 : 1;
  list.push_back({"iperf3", "iperf3", need("iperf3", "iperf3"), [net] { return measure_iperf3(net->get()); }});
  list.push_back(
      {"sockperf", "sockperf", need("sockperf", "sockperf"), [net] { return measure_sockperf(net->get()); }});
  for (const UcxTest& test : {UcxTest{"ucx", "tag_bw", 65536, 20'000 / part},
                              {"ucx-rate", "tag_bw", 8, 400'000 / part},
                              {"ucx-latency", "tag_lat", 8, 20'000 / part}})
    list.push_back({test.row, fmt::format("ucx_perftest {} of {} bytes", test.test, test.bytes),
                    need("ucx_perftest", "ucx-utils"), [net, test] { return measure_ucx(net->get(), test); }});
}

}  // namespace roci::bench
