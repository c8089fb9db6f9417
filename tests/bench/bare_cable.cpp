// The limit: what the cable itself carries between two processes, with one copy and one CRC a side, as the stack must.
//
// Prints a table, or JSON: frames and bits a second for the frames of RoCE MTU 4096, 1024 and of an 8-byte write, half
// a round trip of one small frame, and what copy and CRC cost one core.
#include <isa-l/crc.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "drivers/cable/cable.h"
#include "drivers/live/clock.h"
#include "stack/base/assert.h"

namespace {

using namespace roci;

constexpr std::uint32_t kHeaderBytes = 54;  // Ethernet, IPv4, UDP, BTH
constexpr std::uint32_t kEthernetBytes = 14;
constexpr std::size_t kBufferBytes = 65536;
constexpr std::size_t kBurst = 32;
constexpr std::array<std::uint32_t, 3> kFrameBytes{4154, 1082, 82};

std::uint32_t crc(const std::byte* data, std::size_t bytes) {
  return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(data), bytes);
}

void pin(int core) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// One process on the cable, with memory of an application.
struct End {
  explicit End(const std::string& cable) : memory(kBufferBytes) {
    std::string error;
    port = CablePort::open({.name = cable}, &error);
    if (port != nullptr) return;
    std::fprintf(stderr, "bare_cable: %s\n", error.c_str());
    std::exit(1);
  }

  void fill(std::byte* frame, std::uint32_t bytes) {
    const std::uint32_t payload = bytes - kHeaderBytes;
    if (offset + payload > memory.size()) offset = 0;
    std::memcpy(frame + kHeaderBytes, memory.data() + offset, payload);
    offset += payload;
    const std::uint32_t check = crc(frame + kEthernetBytes, bytes - kEthernetBytes - 4);
    std::memcpy(frame + bytes - 4, &check, 4);
  }
  void take(const RxFrame& frame) {
    const std::uint32_t payload = frame.size - kHeaderBytes;
    if (offset + payload > memory.size()) offset = 0;
    std::uint32_t check;
    std::memcpy(&check, frame.data + frame.size - 4, 4);
    ROCI_ASSERT(check == crc(frame.data + kEthernetBytes, frame.size - kEthernetBytes - 4));
    std::memcpy(memory.data() + offset, frame.data + kHeaderBytes, payload);
    offset += payload;
  }
  std::size_t send(Route& route, std::uint32_t bytes, std::size_t most) {
    std::array<TxSlot, kBurst> slots;
    std::array<std::uint32_t, kBurst> sizes;
    sizes.fill(bytes);
    const std::size_t count = port->tx_reserve(route, {slots.data(), std::min(most, kBurst)});
    for (std::size_t i = 0; i < count; ++i) fill(slots[i].data, bytes);
    port->tx_commit(route, {sizes.data(), count});
    return count;
  }
  std::size_t receive() {
    std::array<RxFrame, kBurst> frames;
    const std::size_t count = port->rx_burst(frames);
    for (std::size_t i = 0; i < count; ++i) take(frames[i]);
    port->rx_release();
    return count;
  }
  /// Turns until `step` says that it is done.
  template <class Step>
  void turn_until(Step step) {
    for (bool done = false; !done;) {
      const Instant now = live_now();
      port->begin_turn(now, TurnReason::kPoll);
      done = step(now);
      port->end_turn(now);
    }
  }

  std::unique_ptr<CablePort> port;
  std::vector<std::byte> memory;
  std::size_t offset = 0;
};

struct Measurement {
  std::array<double, kFrameBytes.size()> frames_per_s{};
  double half_round_trip_ns = 0;
};

/// The receiving process: takes frames for as long as they come, and answers each in the ping-pong.
Measurement receive_all(const std::string& cable, double seconds, std::uint32_t round_trips) {
  End end(cable);
  pin(1);
  Route* back = end.port->acquire_route(IpAddress::v4(0xc6120001), Qpn{0});
  Measurement result;
  for (std::size_t i = 0; i < kFrameBytes.size(); ++i) {
    std::uint64_t count = 0;
    Instant start{};
    Instant last{};
    const Duration length{static_cast<std::int64_t>(seconds * 1e12)};
    end.turn_until([&](Instant now) {
      const std::size_t got = end.receive();
      if (got == 0) return false;
      if (start == Instant{}) start = now;
      count += got;
      last = now;
      return now - start > length;
    });
    result.frames_per_s[i] = static_cast<double>(count) / (static_cast<double>((last - start).ps) / 1e12);
    // Tells the sender, with a frame of its own size, and takes what is still under way.
    end.turn_until([&](Instant) { return end.send(*back, 64, 1) == 1; });
    Instant quiet = live_now();
    end.turn_until([&](Instant now) {
      if (end.receive() > 0) quiet = now;
      return now - quiet > milliseconds(20);
    });
  }
  for (std::uint32_t i = 0; i < round_trips; ++i) {
    end.turn_until([&](Instant) { return end.receive() > 0; });
    end.turn_until([&](Instant) { return end.send(*back, 82, 1) == 1; });
  }
  return result;
}

double send_all(const std::string& cable, std::uint32_t round_trips, int ready) {
  End end(cable);
  pin(0);
  char byte = 0;
  ROCI_ASSERT(write(ready, &byte, 1) == 1);
  Route* route = end.port->acquire_route(IpAddress::v4(0xc6120002), Qpn{1u << 18});
  for (const std::uint32_t bytes : kFrameBytes) {
    end.turn_until([&](Instant) {
      end.send(*route, bytes, kBurst);
      return end.receive() > 0;
    });
    const Instant stopped = live_now();
    end.turn_until([&](Instant now) { return now - stopped > milliseconds(60); });
  }
  const Instant start = live_now();
  for (std::uint32_t i = 0; i < round_trips; ++i) {
    end.turn_until([&](Instant) { return end.send(*route, 82, 1) == 1; });
    end.turn_until([&](Instant) { return end.receive() > 0; });
  }
  return static_cast<double>((live_now() - start).ns()) / round_trips / 2;
}

/// Seconds that one core takes for one copy and one CRC of `bytes`.
double copy_and_crc_seconds(std::uint32_t bytes) {
  std::vector<std::byte> from(kBufferBytes);
  std::vector<std::byte> to(kBufferBytes);
  constexpr int kRounds = 200'000;
  std::uint32_t sum = 0;
  const Instant start = live_now();
  for (int i = 0; i < kRounds; ++i) {
    std::memcpy(to.data() + (i % 8) * 4352, from.data() + (i % 8) * 4352, bytes);
    sum ^= crc(to.data() + (i % 8) * 4352, bytes);
  }
  const double seconds = static_cast<double>((live_now() - start).ps) / 1e12 / kRounds;
  return sum == 1 ? 0 : seconds;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 1;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0)
      json = true;
    else if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
      seconds = std::atof(argv[++i]);
    else
      return std::fprintf(stderr, "usage: bare_cable [--seconds S] [--json]\n"), 2;
  }
  constexpr std::uint32_t kRoundTrips = 100'000;
  const std::string cable = "bench." + std::to_string(getpid());
  int results[2];
  int ready[2];
  ROCI_ASSERT(pipe(results) == 0 && pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    // The sender joins first: it is end 0.
    char byte = 0;
    ROCI_ASSERT(read(ready[0], &byte, 1) == 1);
    const Measurement result = receive_all(cable, seconds, kRoundTrips);
    _exit(write(results[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  const double half_round_trip_ns = send_all(cable, kRoundTrips, ready[1]);
  Measurement result;
  ROCI_ASSERT(read(results[0], &result, sizeof result) == sizeof result);
  waitpid(child, nullptr, 0);
  if (json) {
    std::printf("{\"half_round_trip_ns\": %.1f, \"frames\": [", half_round_trip_ns);
    for (std::size_t i = 0; i < kFrameBytes.size(); ++i)
      std::printf("%s{\"bytes\": %u, \"per_s\": %.0f, \"copy_and_crc_ns\": %.2f}", i == 0 ? "" : ", ", kFrameBytes[i],
                  result.frames_per_s[i], copy_and_crc_seconds(kFrameBytes[i]) * 1e9);
    std::printf("]}\n");
    return 0;
  }
  std::printf("%12s %14s %10s %22s\n", "frame [B]", "frames/s", "Gb/s", "of one core's limit");
  for (std::size_t i = 0; i < kFrameBytes.size(); ++i) {
    const double limit = 1 / copy_and_crc_seconds(kFrameBytes[i]);
    std::printf("%12u %14.0f %10.1f %22.2f\n", kFrameBytes[i], result.frames_per_s[i],
                result.frames_per_s[i] * kFrameBytes[i] * 8 / 1e9, result.frames_per_s[i] / limit);
  }
  std::printf("half a round trip of an 82-byte frame: %.0f ns\n", half_round_trip_ns);
  return 0;
}
