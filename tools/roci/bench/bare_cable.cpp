#include "tools/roci/bench/bare_cable.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "drivers/cable/cable.h"
#include "drivers/live/clock.h"
#include "tools/roci/bench/cores.h"
#include "tools/roci/bench/frame_work.h"
#include "tools/roci/bench/process.h"

namespace roci::bench {
namespace {

constexpr std::size_t kBurst = 32;
/// Frames under way at a time: slots are used again while they are still in the caches of both cores.
constexpr std::uint64_t kWindowFrames = 64;

/// What the two processes and their parent share. Each field has one writer.
struct Shared {
  struct alignas(64) Taken {
    std::atomic<std::uint64_t> frames{0};
  };
  std::atomic<std::uint32_t> joined{0};
  std::array<Taken, 2> taken{};  ///< by the end that received them
  std::atomic<bool> time_over{false};
  std::array<std::atomic<bool>, 2> stopped_sending{};
  std::array<double, 2> frames_per_s{};  ///< received, by end
  std::atomic<double> half_round_trip_us{0};
};

double seconds_of(Duration duration) { return static_cast<double>(duration.ps) / 1e12; }

/// One process on the cable.
class End {
 public:
  End(Shared& shared, unsigned self, const std::string& cable, const CableTest& test)
      : shared_(shared), self_(self), test_(test) {
    put_on_core(self);
    // The ends join in order: end n has address 198.18.0.(n+1) and the n-th block of QPNs.
    if (self == 1) wait_for_joined(1);
    std::string error;
    port_ = CablePort::open({.name = cable}, &error);
    if (port_ == nullptr) {
      std::fprintf(stderr, "roci bench: %s\n", error.c_str());
      _exit(1);
    }
    shared.joined.fetch_add(1);
    wait_for_joined(2);
    const std::uint32_t peer = 1 - self;
    constexpr std::uint32_t kBlockBits = 18;
    route_ = port_->acquire_route(IpAddress::v4(0xc6120001 + peer), Qpn{peer << kBlockBits});
  }

  void run(Duration length) {
    if (test_.kind == CableTest::Kind::kPingPong)
      ping_pong(length);
    else
      stream(length);
  }

 private:
  void wait_for_joined(std::uint32_t count) const {
    while (shared_.joined.load() < count) sched_yield();
  }

  std::size_t send(std::size_t most) {
    std::array<TxSlot, kBurst> slots;
    std::array<std::uint32_t, kBurst> sizes;
    sizes.fill(test_.frame_bytes);
    const std::uint64_t under_way = sent_ - shared_.taken[1 - self_].frames.load(std::memory_order_acquire);
    const std::size_t room = std::min<std::size_t>(kWindowFrames - under_way, kBurst);
    const std::size_t count = port_->tx_reserve(*route_, {slots.data(), std::min(most, room)});
    sent_ += count;
    for (std::size_t i = 0; i < count; ++i) work_.fill(slots[i].data, test_.frame_bytes);
    port_->tx_commit(*route_, {sizes.data(), count});
    return count;
  }
  std::size_t receive() {
    std::array<RxFrame, kBurst> frames;
    const std::size_t count = port_->rx_burst(frames);
    for (std::size_t i = 0; i < count; ++i)
      if (!work_.take(frames[i].data, frames[i].size)) _exit(1);
    port_->rx_release();
    taken_ += count;
    shared_.taken[self_].frames.store(taken_, std::memory_order_release);
    return count;
  }
  /// Turns until `step` says that it is done.
  template <class Step>
  void turn_until(Step step) {
    for (bool done = false; !done;) {
      const Instant now = live_now();
      port_->begin_turn(now, TurnReason::kPoll);
      done = step(now);
      port_->end_turn(now);
    }
  }

  /// End 1 receives and keeps the time; end 0 sends; or both do both.
  void stream(Duration length) {
    const bool sends = self_ == 0 || test_.kind == CableTest::Kind::kBothWays;
    std::uint64_t count = 0;
    Instant start{};
    Instant last{};
    turn_until([&](Instant now) {
      if (sends) send(kBurst);
      if (const std::size_t got = receive(); got > 0) {
        // What came with the first look is the start, not part of what came since.
        if (start == Instant{})
          start = now;
        else
          count += got;
        last = now;
      }
      if (self_ == 1 && start != Instant{} && now - start > length) shared_.time_over.store(true);
      return shared_.time_over.load(std::memory_order_relaxed);
    });
    shared_.stopped_sending[self_].store(true);
    if (last > start) shared_.frames_per_s[self_] = static_cast<double>(count) / seconds_of(last - start);
    // What is still under way.
    turn_until([&](Instant) {
      const bool peer_stopped = shared_.stopped_sending[1 - self_].load();
      return receive() == 0 && peer_stopped;
    });
  }

  void ping_pong(Duration length) {
    std::uint64_t trips = 0;
    const Instant start = live_now();
    Instant now = start;
    const auto send_one = [&] { turn_until([&](Instant) { return send(1) == 1; }); };
    // End 1 answers what comes until end 0, which keeps the time, has stopped.
    for (bool done = false; !done;) {
      if (self_ == 0) send_one();
      turn_until([&](Instant at) {
        now = at;
        done = self_ == 1 && shared_.half_round_trip_us != 0;
        return receive() > 0 || done;
      });
      if (self_ == 1 && !done) send_one();
      ++trips;
      if (self_ != 0 || now - start < length) continue;
      shared_.half_round_trip_us.store(seconds_of(now - start) * 1e6 / static_cast<double>(trips) / 2);
      done = true;
    }
  }

  Shared& shared_;
  const unsigned self_;
  const CableTest test_;
  FrameWork work_;
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;
  std::unique_ptr<CablePort> port_;
  Route* route_ = nullptr;
};

pid_t start_end(Shared& shared, unsigned self, const std::string& cable, const CableTest& test, Duration length) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  if (getppid() != parent) _exit(1);
  // The port leaves the cable before the process ends.
  { End(shared, self, cable, test).run(length); }
  _exit(0);
}

/// Both have ended well. If one has not, the other would wait for ever: it is killed.
bool wait_for_both(const std::array<pid_t, 2>& ends) {
  bool good = true;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    int status = 0;
    pid_t ended;
    do ended = waitpid(0, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    good = false;
    for (const pid_t end : ends)
      if (end > 0 && end != ended) kill(end, SIGKILL);
  }
  return good;
}

/// Nanoseconds of one call.
template <class Work>
double time_of(Duration length, Work work) {
  constexpr std::uint64_t kBetweenLooks = 256;
  std::uint64_t count = 0;
  const Instant start = live_now();
  Instant now = start;
  for (; now - start < length; now = live_now(), count += kBetweenLooks)
    for (std::uint64_t i = 0; i < kBetweenLooks; ++i) work();
  return seconds_of(now - start) * 1e9 / static_cast<double>(count);
}

}  // namespace

CableFigures measure_bare_cable(const CableTest& test, Duration length) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Failure(fmt::format("the bare cable: no memory: {}", std::strerror(errno)));
  const std::unique_ptr<void, void (*)(void*)> unmap(memory, [](void* at) { munmap(at, sizeof(Shared)); });
  Shared& shared = *new (memory) Shared;
  const std::string cable = fmt::format("bench.{}", getpid());
  const std::array<pid_t, 2> ends{start_end(shared, 0, cable, test, length), start_end(shared, 1, cable, test, length)};
  const bool good = wait_for_both(ends);
  check_interrupted();
  if (!good) throw Failure("the bare cable: a process failed");
  return {.frames_per_s = shared.frames_per_s[0] + shared.frames_per_s[1],
          .half_round_trip_us = shared.half_round_trip_us};
}

double payload_gbps(double frames_per_s, std::uint32_t frame_bytes) {
  return frames_per_s * (frame_bytes - kHeaderBytes - kIcrcBytes) * 8 / 1e9;
}

OneCore measure_one_core(Duration length) {
  constexpr std::uint32_t kPayloadBytes = 4096;
  std::vector<std::byte> from(FrameWork::kMemoryBytes);
  std::vector<std::byte> to(FrameWork::kMemoryBytes);
  std::uint32_t sum = 0;
  std::size_t offset = 0;
  const auto next = [&] { return offset = (offset + kPayloadBytes) % (FrameWork::kMemoryBytes - kPayloadBytes); };
  const auto copy = [&] {
    next();
    std::memcpy(to.data() + offset, from.data() + offset, kPayloadBytes);
    // The compiler must not see that nobody reads it.
    asm volatile("" : : "r"(to.data()) : "memory");
  };
  const double copy_ns = time_of(length, copy);
  const double crc_ns = time_of(length, [&] { sum ^= crc32_of(from.data() + next(), kPayloadBytes); });
  const double both_ns = time_of(length, [&] {
    copy();
    sum ^= crc32_of(to.data() + offset, kPayloadBytes + kHeaderBytes - kEthernetBytes);
  });
  asm volatile("" : : "r"(sum));
  return {kPayloadBytes / copy_ns, kPayloadBytes / crc_ns, kPayloadBytes * 8 / both_ns};
}

}  // namespace roci::bench
