// An all-reduce over a ring of processes, as collective libraries do it over InfiniBand, every byte checked:
// roci-allreduce RANK PORT... with the TCP port of each rank on this machine, and the RANK of this one.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "tests/clients/ring_neighbour.h"

namespace allreduce {
namespace {

/// Element counts: fewer than ranks, odd, a power of two, many packets, and one that is a multiple of nothing.
constexpr std::size_t kCounts[] = {0, 1, 3, 4, 17, 1024, 4099, 65536, 1000003};
constexpr int kRounds = 3;
constexpr int kStartSeconds = 30;
constexpr int kStuckSeconds = 60;

using Element = std::uint32_t;

/// What `rank` brings along at `index`.
Element element(std::uint32_t rank, int round, std::size_t index) {
  std::uint64_t x = index * 0x9e3779b97f4a7c15u + rank * 0xbf58476d1ce4e5b9u + static_cast<std::uint64_t>(round);
  x = (x ^ x >> 31) * 0x94d049bb133111ebu;
  return static_cast<Element>(x >> 32);
}

/// TCP between neighbours: to the next rank, and from the one before.
class Bootstrap {
 public:
  Bootstrap(std::uint32_t rank, const std::vector<std::uint16_t>& ports) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in own = address(ports[rank]);
    require(bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 && listen(listener, 1) == 0,
            "listen");
    connect_to(address(ports[(rank + 1) % ports.size()]));
    from_previous_ = accept(listener, nullptr, nullptr);
    require(from_previous_ >= 0, "accept");
    close(listener);
  }
  ~Bootstrap() {
    close(to_next_);
    close(from_previous_);
  }

  /// Tells the previous rank of the end that receives from it, the next one of that which sends, and hears the same.
  void exchange(const EndPoint& sender, const EndPoint& receiver, EndPoint* next_receiver, EndPoint* previous_sender) {
    put(to_next_, sender);
    put(from_previous_, receiver);
    get(from_previous_, previous_sender);
    get(to_next_, next_receiver);
  }

  /// Returns when all ranks are here: twice around.
  void barrier(std::uint32_t rank) {
    for (int i = 0; i < 2; ++i) {
      char token = 0;
      if (rank == 0) put(to_next_, token);
      get(from_previous_, &token);
      if (rank != 0) put(to_next_, token);
    }
  }

 private:
  static sockaddr_in address(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }
  void connect_to(const sockaddr_in& next) {
    constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 20'000'000};
    for (int i = 0; i < kStartSeconds * 50; ++i) {
      to_next_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(to_next_, reinterpret_cast<const sockaddr*>(&next), sizeof next) == 0) return;
      close(to_next_);
      nanosleep(&kPause, nullptr);
    }
    fail("connect");
  }
  template <class T>
  static void put(int fd, const T& value) {
    require(send(fd, &value, sizeof value, MSG_NOSIGNAL) == sizeof value, "send");
  }
  template <class T>
  static void get(int fd, T* value) {
    require(recv(fd, value, sizeof *value, MSG_WAITALL) == sizeof *value, "recv");
  }

  int to_next_ = -1;
  int from_previous_ = -1;
};

class Ring {
 public:
  Ring(std::uint32_t rank, std::uint32_t ranks, std::size_t most_elements)
      : rank_(rank), ranks_(ranks), device_(verbs()), sender_(device_), receiver_(device_) {
    data_.resize(most_elements);
    scratch_.resize(most_elements / ranks + 1);
    data_mr_ = device_.register_memory(data_.data(), data_.size() * sizeof(Element));
    scratch_mr_ = device_.register_memory(scratch_.data(), scratch_.size() * sizeof(Element));
  }
  ~Ring() {
    for (ibv_mr* mr : {data_mr_, scratch_mr_}) require(device_.verbs.ibv_dereg_mr(mr) == 0, "dereg_mr");
  }

  void connect(Bootstrap& bootstrap) {
    EndPoint next_receiver;
    EndPoint previous_sender;
    bootstrap.exchange(sender_.describe(), receiver_.describe(), &next_receiver, &previous_sender);
    sender_.connect(next_receiver);
    receiver_.connect(previous_sender);
  }

  /// Fills the first `count` elements, reduces them over all ranks and compares.
  void run(std::size_t count, int round) {
    count_ = count;
    for (std::size_t i = 0; i < count; ++i) data_[i] = element(rank_, round, i);
    for (std::uint32_t step = 0; step + 1 < ranks_; ++step) reduce(step);
    for (std::uint32_t step = 0; step + 1 < ranks_; ++step) gather(step);
    for (std::size_t i = 0; i < count; ++i) {
      Element sum = 0;
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) sum += element(rank, round, i);
      if (data_[i] == sum) continue;
      std::fprintf(stderr, "allreduce: element %zu of %zu: %08x instead of %08x\n", i, count, data_[i], sum);
      std::exit(1);
    }
  }

 private:
  static const LoadedVerbs& verbs() {
    // The thread that follows events lives as long as the process, and so do the functions.
    static const LoadedVerbs loaded = load_verbs();
    return loaded;
  }

  struct Chunk {
    std::size_t first;
    std::size_t size;
  };
  Chunk chunk(std::uint32_t index) const {
    const std::size_t at = index % ranks_;
    return {count_ * at / ranks_, count_ * (at + 1) / ranks_ - count_ * at / ranks_};
  }

  void reduce(std::uint32_t step) {
    const Chunk out = chunk(rank_ + ranks_ - step);
    const Chunk in = chunk(rank_ + ranks_ - step - 1);
    exchange(out, scratch_.data(), in.size, scratch_mr_);
    for (std::size_t i = 0; i < in.size; ++i) data_[in.first + i] += scratch_[i];
  }

  void gather(std::uint32_t step) {
    const Chunk out = chunk(rank_ + ranks_ - step + 1);
    const Chunk in = chunk(rank_ + ranks_ - step);
    exchange(out, data_.data() + in.first, in.size, data_mr_);
  }

  void exchange(const Chunk& out, Element* in, std::size_t in_size, const ibv_mr* in_mr) {
    sender_.begin(reinterpret_cast<const std::byte*>(data_.data() + out.first), out.size * sizeof(Element), data_mr_);
    receiver_.begin(reinterpret_cast<std::byte*>(in), in_size * sizeof(Element), in_mr);
    const std::time_t start = std::time(nullptr);
    bool sent = false;
    bool received = false;
    while (!sent || !received) {
      sent = sent || sender_.progress();
      received = received || receiver_.progress();
      if (std::time(nullptr) - start > kStuckSeconds) fail("no progress");
    }
  }

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  Device device_;
  Sender sender_;
  Receiver receiver_;
  std::vector<Element> data_;
  std::vector<Element> scratch_;
  ibv_mr* data_mr_ = nullptr;
  ibv_mr* scratch_mr_ = nullptr;
  std::size_t count_ = 0;
};

int run(std::uint32_t rank, const std::vector<std::uint16_t>& ports) {
  const auto ranks = static_cast<std::uint32_t>(ports.size());
  Ring ring(rank, ranks, kCounts[std::size(kCounts) - 1]);
  Bootstrap bootstrap(rank, ports);
  ring.connect(bootstrap);
  bootstrap.barrier(rank);
  std::size_t bytes = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (const std::size_t count : kCounts) {
      ring.run(count, round);
      bytes += count * sizeof(Element);
    }
  }
  bootstrap.barrier(rank);
  std::printf("allreduce: rank %u of %u: %zu bytes checked\n", rank, ranks, bytes);
  return 0;
}

}  // namespace
}  // namespace allreduce

int main(int argc, char** argv) {
  std::vector<std::uint16_t> ports;
  for (int i = 2; i < argc; ++i) ports.push_back(static_cast<std::uint16_t>(std::atoi(argv[i])));
  const int rank = argc > 1 ? std::atoi(argv[1]) : -1;
  if (ports.size() < 2 || rank < 0 || static_cast<std::size_t>(rank) >= ports.size()) {
    std::fprintf(stderr, "Usage: roci-allreduce RANK PORT PORT...\n");
    return 2;
  }
  return allreduce::run(static_cast<std::uint32_t>(rank), ports);
}
