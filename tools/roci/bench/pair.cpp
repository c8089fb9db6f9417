#include "tools/roci/bench/pair.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "drivers/cable/directory.h"
#include "drivers/live/clock.h"

namespace roci::bench {
namespace {

constexpr Duration kClientAtMost = seconds(120);
constexpr Duration kServerAtMost = seconds(20);
constexpr Duration kBetweenLooks = milliseconds(50);
/// Over a shorter time a share of CPU time says little.
constexpr Duration kShortestLook = milliseconds(40);

Command under_roci(const Command& prefix, const Place& place, const Command& program) {
  Command command = prefix;
  command.insert(command.end(), {own_path(), "run", "--link", place.link, "--"});
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

Command with_port(Command program, unsigned port) {
  program.insert(program.end(), {"-p", fmt::format("{}", port)});
  return program;
}

template <std::size_t kCount>
std::size_t index_of(const std::array<CounterInfo, kCount>& infos, std::string_view name) {
  const auto found =
      std::find_if(infos.begin(), infos.end(), [&](const CounterInfo& info) { return info.name == name; });
  return static_cast<std::size_t>(found - infos.begin());
}

/// What an end has done by now.
struct Tally {
  Duration cpu_time;
  std::uint64_t frames = 0;
  std::uint64_t ring_full = 0;
};

std::optional<Tally> tally(const Child& child, const std::vector<CableEnd>& ends) {
  static const std::size_t frames = index_of(kCableCounterInfos, "cable_tx_frames");
  static const std::size_t ring_full = index_of(kCableCounterInfos, "cable_tx_ring_full");
  for (const CableEnd& end : ends)
    if (end.pid == child.pid())
      return Tally{child.cpu_time(), end.cable_counters[frames], end.cable_counters[ring_full]};
  return std::nullopt;
}

EndLoad load_between(const Tally& first, const Tally& last, Duration time) {
  const auto frames = static_cast<double>(std::max<std::uint64_t>(1, last.frames - first.frames));
  return {static_cast<double>((last.cpu_time - first.cpu_time).ps) / static_cast<double>(time.ps),
          1000 * static_cast<double>(last.ring_full - first.ring_full) / frames};
}

/// Looks at both ends from time to time; what is between the first look with new frames and the last one counts.
class LoadWatch {
 public:
  LoadWatch(const Child& client, const Child& server) : client_(client), server_(server) {}

  void look() {
    const std::vector<CableEnd> ends = list_cable_ends();
    const Instant now = live_now();
    const std::optional<Tally> client = tally(client_, ends);
    const std::optional<Tally> server = tally(server_, ends);
    if (!client.has_value() || !server.has_value()) return;
    const Look look{now, *client, *server};
    // The last look with new frames: after it the ends only take leave of each other.
    if (look.frames() > (looks_.empty() ? kFewFrames : looks_.back().frames())) looks_.push_back(look);
  }

  std::optional<Load> result() const {
    if (looks_.empty()) return std::nullopt;
    const Look& first = looks_.front();
    const Look& last = looks_.back();
    const Duration time = last.at - first.at;
    if (time < kShortestLook) return std::nullopt;
    return Load{load_between(first.client, last.client, time), load_between(first.server, last.server, time)};
  }

 private:
  static constexpr std::uint64_t kFewFrames = 100;

  struct Look {
    Instant at;
    Tally client;
    Tally server;
    std::uint64_t frames() const { return client.frames + server.frames; }
  };

  const Child& client_;
  const Child& server_;
  std::vector<Look> looks_;
};

}  // namespace

Place on_a_cable() { return {.link = fmt::format("cable:bench.{}", getpid())}; }

std::unique_ptr<Child> start_server(const Place& place, const Command& program, unsigned port) {
  auto server = std::make_unique<Child>(under_roci(place.server_prefix, place, with_port(program, port)));
  server->wait_until_listening(port);
  return server;
}

std::unique_ptr<Child> start_client(const Place& place, const Command& program, unsigned port) {
  Command client = with_port(program, port);
  client.push_back(place.address);
  return std::make_unique<Child>(under_roci(place.client_prefix, place, client));
}

Pair::Pair(const Place& place, const Command& program) {
  const unsigned port = free_tcp_port();
  server_ = start_server(place, program, port);
  client_ = start_client(place, program, port);
}

std::string Pair::finish() {
  client_->expect_success(kClientAtMost);
  server_->expect_success(kServerAtMost);
  return client_->output();
}

std::string Pair::finish(std::optional<Load>* load) {
  LoadWatch watch(*client_, *server_);
  const Instant until = live_now() + kClientAtMost;
  while (!client_->wait(kBetweenLooks) && live_now() < until) watch.look();
  *load = watch.result();
  return finish();
}

std::optional<std::uint64_t> packets_sent(pid_t pid) {
  static const std::size_t sent = index_of(kCounterInfos, "tx_packets");
  for (const CableEnd& end : list_cable_ends())
    if (end.pid == pid) return end.stack_counters[sent];
  return std::nullopt;
}

}  // namespace roci::bench
