// Two stacks in one process, turned by hand in virtual time: so many operations of one kind, and nothing else. What
// each side does is in a function of its own, at which callgrind starts and stops counting.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "drivers/sim/rc_connection.h"
#include "stack/control/device.h"

namespace roci::bench {
namespace {

/// A ring of frames that the other side reads in place, as on the cable.
class BenchPort : public Port {
 public:
  BenchPort(std::uint32_t number, std::uint32_t ring_frames) : number_(number), ring_frames_(ring_frames) {
    route_.l2[12] = std::byte{0x08};
    route_.l2[13] = std::byte{0x00};
  }
  void connect(BenchPort& peer) { peer_ = &peer; }

  PortAttributes attributes() const override {
    return {.mac = {{2, 0, 198, 18, 0, static_cast<std::uint8_t>(number_ + 1)}},
            .addresses = {IpAddress::v4(0xc6120001 + number_)},
            .link_mtu_bytes = 4200,
            .qpn_block = number_};
  }
  Route* acquire_route(const IpAddress&, Qpn) override { return &route_; }
  void release_route(Route*) override {}
  void begin_turn(Instant, TurnReason) override {}
  void end_turn(Instant) override {}
  std::size_t rx_burst(std::span<RxFrame> out) override {
    std::size_t count = 0;
    for (; count < out.size() && head_ + count != peer_->tail_; ++count) out[count] = peer_->frame(head_ + count);
    burst_ = static_cast<std::uint32_t>(count);
    return count;
  }
  void rx_release() override { head_ += burst_; }
  std::size_t tx_reserve(Route&, std::span<TxSlot> out) override {
    const std::size_t room = std::min<std::size_t>(out.size(), ring_frames_ - (tail_ - peer_->head_));
    for (std::size_t i = 0; i < room; ++i) out[i].data = slots_[(tail_ + i) % kSlots].data();
    return room;
  }
  void tx_commit(Route&, std::span<const std::uint32_t> frame_bytes) override {
    for (const std::uint32_t bytes : frame_bytes) sizes_[tail_++ % kSlots] = bytes;
  }
  bool peer_stalled(const Route&) override { return false; }
  void prepare_wait(bool) override {}
  bool wait(Duration) override { return false; }
  void cancel_wait() override {}
  void wake() override {}

 private:
  static constexpr std::uint32_t kSlots = 256;

  RxFrame frame(std::size_t index) const { return {slots_[index % kSlots].data(), sizes_[index % kSlots]}; }

  std::uint32_t number_;
  const std::uint32_t ring_frames_;
  Route route_;
  BenchPort* peer_ = nullptr;
  std::uint32_t tail_ = 0;  ///< of our slots
  std::uint32_t head_ = 0;  ///< of the peer's
  std::uint32_t burst_ = 0;
  std::array<std::array<std::byte, kMaxFrameBytes>, kSlots> slots_{};
  std::array<std::uint32_t, kSlots> sizes_{};
};

class NoEvents : public EventSink {
 public:
  void on_completion_event(Cq&) override {}
  void on_async_event(const AsyncEvent&) override {}
};

class FixedEntropy : public Entropy {
 public:
  std::uint64_t next() override { return value_ += 0x9e37'79b9'7f4a'7c15; }

 private:
  std::uint64_t value_ = 1;
};

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "hot_path: %s\n", what);
  std::exit(1);
}

struct Side {
  static constexpr std::size_t kMemoryBytes = 1 << 20;
  static constexpr std::uint32_t kQueue = 128;

  Side(std::uint32_t number, std::uint32_t qp_count, std::uint32_t ring_frames)
      : port(number, ring_frames), device(port, events, entropy, counters, {}), qps(qp_count) {
    require(device.alloc_pd(&pd) == 0 && device.create_cq(2 * kQueue * qp_count, nullptr, &cq) == 0, "PD and CQ");
    constexpr std::uint32_t kRights = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
    const auto address = reinterpret_cast<std::uint64_t>(memory.data());
    require(device.reg_mr(pd, memory.data(), kMemoryBytes, address, kRights, &mr) == 0, "MR");
    for (Qp*& qp : qps) create(qp);
  }
  ~Side() {
    for (Qp* qp : qps) device.destroy_qp(qp);
    device.dereg_mr(mr);
    device.destroy_cq(cq);
    device.dealloc_pd(pd);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  void create(Qp*& qp) {
    QpInit init{.send_cq = cq,
                .recv_cq = cq,
                .capacity = {.max_send_wr = kQueue, .max_recv_wr = kQueue, .max_send_sge = 1, .max_recv_sge = 1}};
    require(device.create_qp(pd, init, &qp) == 0, "QP");
  }
  void connect(const Side& peer) {
    for (std::size_t i = 0; i < qps.size(); ++i) connect(qps[i], peer.qps[i]->qpn(), peer);
  }
  void connect(Qp* qp, Qpn peer_qpn, const Side& peer) {
    const int error =
        sim::bring_up(device, qp,
                      {.path_mtu = 5,
                       .dest_qpn = peer_qpn,
                       .access_flags = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic,
                       .av = {.dgid = peer.port.attributes().addresses[0], .port_num = 1, .is_global = true},
                       .max_rd_atomic = 16,
                       .max_dest_rd_atomic = 16,
                       .min_rnr_timer = 12,
                       .timeout = 14,
                       .retry_cnt = 7,
                       .rnr_retry = 7});
    require(error == 0, "connecting");
  }
  Sge sge(std::uint32_t bytes) const { return {reinterpret_cast<std::uint64_t>(memory.data()), bytes, LKey{mr->key}}; }

  BenchPort port;
  NoEvents events;
  FixedEntropy entropy;
  Counters counters;
  Device device;
  std::vector<std::byte> memory = std::vector<std::byte>(kMemoryBytes);
  Pd* pd = nullptr;
  Cq* cq = nullptr;
  Mr* mr = nullptr;
  std::vector<Qp*> qps;
};

struct Workload {
  std::string_view name;
  WrOpcode opcode;
  std::uint32_t bytes;
  std::uint32_t in_flight;
  std::uint32_t qps;
  std::uint32_t ring_frames;
};

constexpr auto kWorkloads = std::to_array<Workload>({
    {"write-64KiB", WrOpcode::kRdmaWrite, 65536, 8, 1, 256},
    {"write-8B", WrOpcode::kRdmaWrite, 8, 64, 1, 256},
    // The ring holds half of what one turn would send: most QPs wait for room in it.
    {"write-8B-256QP", WrOpcode::kRdmaWrite, 8, 4096, 256, 128},
    {"send-8B", WrOpcode::kSend, 8, 64, 1, 256},
    {"read-64KiB", WrOpcode::kRdmaRead, 65536, 8, 1, 256},
});

class Bench {
 public:
  explicit Bench(const Workload& workload) : workload_(workload) {
    requester_.port.connect(responder_.port);
    responder_.port.connect(requester_.port);
    requester_.connect(responder_);
    responder_.connect(requester_);
  }

  void run(std::uint64_t messages) {
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    while (done < messages) {
      const auto room = static_cast<std::uint32_t>(std::min<std::uint64_t>(messages - posted, room_));
      posted += room;
      room_ -= room;
      const std::uint32_t finished = requester_side(room);
      responder_side();
      room_ += finished;
      done += finished;
      now_ = now_ + microseconds(10);
    }
  }

 private:
  /// Posts `count` messages, turns the worker, polls; returns the completions.
  [[gnu::noinline]] std::uint32_t requester_side(std::uint32_t count) {
    const std::uint32_t share = workload_.in_flight / workload_.qps;
    for (std::uint32_t left = count; left > 0;) {
      const std::uint32_t batch = std::min(left, share);
      post(requester_.qps[next_qp_], responder_, batch);
      left -= batch;
      if (++next_qp_ == workload_.qps) next_qp_ = 0;
    }
    requester_.device.worker().turn(now_, TurnReason::kPoll);
    return poll(requester_);
  }

  void post(Qp* qp, const Side& peer, std::uint32_t count) {
    const Sge local = requester_.sge(workload_.bytes);
    for (std::uint32_t i = 0; i < count; ++i)
      require(requester_.device.post_send(qp, {.opcode = workload_.opcode,
                                               .flags = kSendSignaled,
                                               .num_sge = 1,
                                               .sges = &local,
                                               .remote_addr = reinterpret_cast<std::uint64_t>(peer.memory.data()),
                                               .rkey = RKey{peer.mr->key}}) == 0,
              "posting");
    requester_.device.ring(qp);
  }

  [[gnu::noinline]] void responder_side() {
    if (workload_.opcode == WrOpcode::kSend) {
      const Sge local = responder_.sge(workload_.bytes);
      for (; receives_ < Side::kQueue; ++receives_)
        require(responder_.device.post_recv(responder_.qps[0], {.num_sge = 1, .sges = &local}) == 0,
                "posting a receive");
    }
    responder_.device.worker().turn(now_, TurnReason::kPoll);
    receives_ -= poll(responder_);
  }

  static std::uint32_t poll(Side& side) {
    std::array<Cqe, 32> out;
    std::uint32_t taken = 0;
    while (const std::size_t count = side.cq->poll(out)) {
      for (std::size_t i = 0; i < count; ++i) require(out[i].status == WcStatus::kSuccess, "a completion with error");
      taken += static_cast<std::uint32_t>(count);
    }
    return taken;
  }

  const Workload workload_;
  Side requester_{0, workload_.qps, workload_.ring_frames};
  Side responder_{1, workload_.qps, workload_.ring_frames};
  std::uint32_t room_ = workload_.in_flight;
  std::uint32_t receives_ = 0;
  std::uint32_t next_qp_ = 0;
  Instant now_{1'000'000};
};

}  // namespace
}  // namespace roci::bench

/// hot_path WORKLOAD MESSAGES
int main(int argc, char** argv) {
  using namespace roci::bench;
  for (const Workload& workload : kWorkloads) {
    if (argc != 3 || workload.name != argv[1]) continue;
    std::make_unique<Bench>(workload)->run(std::strtoull(argv[2], nullptr, 10));
    return 0;
  }
  std::fputs("usage: hot_path write-64KiB|write-8B|write-8B-256QP|send-8B|read-64KiB MESSAGES\n", stderr);
  return 2;
}
