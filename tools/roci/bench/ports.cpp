// DPDK's ports by themselves, and Rocinante over the same ones.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "drivers/live/clock.h"
#include "tools/roci/bench/contestants.h"
#include "tools/roci/bench/frame_work.h"
#include "tools/roci/bench/pair.h"
#include "tools/roci/bench/veth.h"

namespace roci::bench {
namespace {

/// Of RoCE MTU 4096, which af_packet carries.
constexpr unsigned kJumboMtuBytes = 4200;
/// Of RoCE MTU 2048, the most for AF_XDP.
constexpr unsigned kXdpMtuBytes = 2176;

std::string raw_port() { return std::filesystem::path(own_path()).replace_filename("roci-raw-port").string(); }

std::string need_raw_port() {
  return access(raw_port().c_str(), X_OK) == 0 ? "" : fmt::format("{} is not there", raw_port());
}

std::string netdev_link(const char* driver) { return fmt::format("netdev:{}/{}", VethPair::kInterface, driver); }

/// Two ports of DPDK, the same but for what names their ends.
struct RawPair {
  std::string_view row;
  Command at_sender;
  Command at_receiver;
  std::string sender;  ///< link
  std::string receiver;
  unsigned frame_bytes;
};

void wait_until_ready(Child& child) {
  constexpr Duration kAtMost = seconds(10);
  constexpr Duration kLook = milliseconds(5);
  const Instant until = live_now() + kAtMost;
  while (child.output().find("ready\n") == std::string::npos) {
    if (child.wait(kLook)) child.expect_success({});
    if (live_now() > until) throw Failure("roci-raw-port is not ready", child.output());
  }
}

Reading measure_raw(const RawPair& pair, Duration length) {
  constexpr Duration kAtMost = seconds(20);
  const auto end = [&](const Command& place, const char* role, const std::string& link) {
    return joined(place, {raw_port(), role, link, fmt::format("{}", pair.frame_bytes),
                          fmt::format("{}", length.ns() / 1'000'000)});
  };
  Child receiver(end(pair.at_receiver, "receive", pair.receiver));
  wait_until_ready(receiver);
  const Child sender(end(pair.at_sender, "send", pair.sender));
  receiver.expect_success(kAtMost);
  const std::string output = receiver.output();
  const double frames_per_s = std::strtod(output.c_str() + output.rfind("ready\n") + std::strlen("ready\n"), nullptr);
  if (frames_per_s == 0) throw Failure(fmt::format("{}: no frame came", pair.receiver), sender.output());
  const unsigned payload = pair.frame_bytes - kHeaderBytes - kIcrcBytes;
  return {{{pair.row, frames_per_s * payload * 8 / 1e9}}, std::nullopt};
}

Reading measure_memif(Duration length) {
  const std::string socket =
      (std::filesystem::temp_directory_path() / fmt::format("roci-bench-{}.memif", getpid())).string();
  const auto of_role = [&](const char* role) {
    return fmt::format("vdev:net_memif0,role={},id=0,bsize=8192,socket-abstract=no,socket={}", role, socket);
  };
  const Reading reading = measure_raw({"memif", {}, {}, of_role("client"), of_role("server"), 4154}, length);
  std::filesystem::remove(socket);
  return reading;
}

Reading measure_raw_netdev(std::string_view row, const VethPair& net, const char* driver, unsigned frame_bytes,
                           Duration length) {
  const std::string link = netdev_link(driver);
  return measure_raw({row, net.at_client(), net.at_server(), link, link, frame_bytes}, length);
}

Reading measure_netdev(std::string_view row, const VethPair& net, const char* driver, unsigned messages) {
  const Command program{"ib_write_bw", "-F", "-N", "--report_gbits", "-s", "65536", "-n", fmt::format("{}", messages)};
  const Place place{net.at_server(), net.at_client(), netdev_link(driver), VethPair::kServerAddress};
  try {
    const std::optional<Bandwidth> found = parse_perftest_bandwidth(Pair(place, program).finish());
    if (!found.has_value()) throw Failure(fmt::format("{}: no table in its output", program[0]));
    return {{{row, found->gbps}}, std::nullopt};
  } catch (const Failure& failure) {
    if (failure.details.find("libroci-dpdk.so") != std::string::npos) throw Absence("libroci-dpdk.so is not there");
    throw;
  }
}

}  // namespace

void add_ports(std::vector<Contestant>& list, const Effort& effort) {
  const Duration length = effort.quick ? milliseconds(50) : milliseconds(400);
  const unsigned messages = effort.quick ? 400 : 4'000;
  const auto jumbo = std::make_shared<LazyVethPair>(kJumboMtuBytes);
  const auto small = std::make_shared<LazyVethPair>(kXdpMtuBytes);
  const std::string raw = need_raw_port();
  const std::string perftest = is_installed("ib_write_bw") ? "" : "ib_write_bw is not installed (package perftest)";
  list.push_back({"memif", "memif by itself", raw, [=] { return measure_memif(length); }});
  list.push_back({"raw-packet", "af_packet by itself", raw,
                  [=] { return measure_raw_netdev("raw-packet", jumbo->get(), "af_packet", 4154, length); }});
  list.push_back({"raw-xdp", "AF_XDP by itself", raw,
                  [=] { return measure_raw_netdev("raw-xdp", small->get(), "af_xdp", 2106, length); }});
  list.push_back({"write-packet", "ib_write_bw over af_packet", perftest,
                  [=] { return measure_netdev("write-packet", jumbo->get(), "af_packet", messages); }});
  list.push_back({"write-xdp", "ib_write_bw over AF_XDP", perftest,
                  [=] { return measure_netdev("write-xdp", small->get(), "af_xdp", messages); }});
}

}  // namespace roci::bench
