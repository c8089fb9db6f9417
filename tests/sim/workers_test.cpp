// Several workers of one host in virtual time: what they carry together when each is bounded.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "drivers/sim/rc_connection.h"
#include "drivers/sim/simulation.h"

namespace roci::simtest {
namespace {

constexpr std::uint32_t kQps = 8;
constexpr std::uint32_t kDepth = 256;
/// A worker takes in kMaxReceivedPerTurn frames a turn, and its turns are this far apart.
constexpr Duration kTurnTime = microseconds(10);
constexpr Duration kRunTime = milliseconds(2);

struct Side {
  sim::SimHost* host = nullptr;
  Pd* pd = nullptr;
  Cq* cq = nullptr;
  Srq* srq = nullptr;
  Mr* mr = nullptr;
  std::vector<Qp*> qps;
  std::vector<std::byte> memory = std::vector<std::byte>(kQps * 8);
};

/// A writes 8 bytes at a time to B on all its QPs, as fast as completions come; one CQ a side, whatever its workers.
class Writers {
 public:
  explicit Writers(std::uint32_t workers, std::uint32_t qps = kQps) : qps_(qps) {
    // Links that are never what limits.
    simulation_.network().set_default_link({.rate_bps = 0, .delay = nanoseconds(100), .queue_frames = 1 << 16});
    for (Side* side : {&a_, &b_}) make(*side, workers);
    for (std::uint32_t i = 0; i < qps_; ++i) connect(i);
    a_.host->set_application([this] { go_on(); });
  }
  ~Writers() {
    for (Side* side : {&a_, &b_}) {
      Device& device = side->host->device();
      for (Qp* qp : side->qps) device.destroy_qp(qp);
      device.destroy_cq(side->cq);
      device.dereg_mr(side->mr);
      device.dealloc_pd(side->pd);
    }
  }
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  /// Writes that complete in kRunTime.
  std::uint64_t run() {
    for (Qp* qp : a_.qps)
      for (std::uint32_t i = 0; i < kDepth; ++i) post(qp);
    simulation_.events().run_until(simulation_.now() + kRunTime);
    return completed_;
  }
  const Side& writer() const { return a_; }
  bool all_succeeded() const { return all_succeeded_; }

 private:
  void make(Side& side, std::uint32_t workers) {
    side.host = &simulation_.add_host({.workers = workers, .turn_time = kTurnTime});
    Device& device = side.host->device();
    device.alloc_pd(&side.pd);
    device.create_cq(kQps * kDepth, nullptr, &side.cq);
    device.reg_mr(side.pd, side.memory.data(), side.memory.size(), 0, kAccessLocalWrite | kAccessRemoteWrite, &side.mr);
    for (std::uint32_t i = 0; i < qps_; ++i) {
      QpInit init{.send_cq = side.cq, .recv_cq = side.cq, .capacity = {.max_send_wr = kDepth, .max_send_sge = 1}};
      side.qps.push_back(nullptr);
      device.create_qp(side.pd, init, &side.qps.back());
    }
  }
  void connect(std::uint32_t i) {
    for (Side* side : {&a_, &b_}) {
      const Side& peer = side == &a_ ? b_ : a_;
      QpAttr attr{.path_mtu = 3,
                  .dest_qpn = peer.qps[i]->qpn(),
                  .access_flags = kAccessRemoteWrite,
                  .timeout = 14,
                  .retry_cnt = 7,
                  .rnr_retry = 7};
      attr.av.is_global = true;
      attr.av.port_num = 1;
      attr.av.dgid = sim::v4_address(peer.host->number());
      ASSERT_EQ(sim::bring_up(side->host->device(), side->qps[i], attr), 0);
    }
  }
  void post(Qp* qp) {
    const Sge sge{0, 8, LKey{a_.mr->key}};
    const SendRequest request{
        .opcode = WrOpcode::kRdmaWrite, .flags = kSendSignaled, .num_sge = 1, .sges = &sge, .rkey = RKey{b_.mr->key}};
    ASSERT_EQ(a_.host->post_send(qp, request), 0);
  }
  void go_on() {
    std::array<Cqe, 64> done;
    for (std::size_t n = a_.cq->poll(done); n > 0; n = a_.cq->poll(done)) {
      completed_ += n;
      for (const Cqe& cqe : std::span(done).first(n)) {
        all_succeeded_ = all_succeeded_ && cqe.status == WcStatus::kSuccess;
        for (Qp* qp : a_.qps)
          if (qp->qpn() == cqe.qpn) post(qp);
      }
    }
  }

  const std::uint32_t qps_;
  sim::Simulation simulation_{1};
  Side a_;
  Side b_;
  std::uint64_t completed_ = 0;
  bool all_succeeded_ = true;
};

double writes_of(std::uint32_t workers, std::uint32_t qps = kQps) {
  Writers writers(workers, qps);
  const std::uint64_t completed = writers.run();
  EXPECT_TRUE(writers.all_succeeded());
  return static_cast<double>(completed);
}

TEST(Workers, qps__are_spread_evenly) {
  const Writers writers(4);
  std::array<int, 4> of_worker{};
  for (Qp* qp : writers.writer().qps) ++of_worker[Device::worker_of(*qp)];
  EXPECT_EQ(of_worker, (std::array{2, 2, 2, 2}));
}

/// 64 frames in 10 us are 12800 in 2 ms. That the stack lets workers work beside each other is what this shows; what
/// they get from a machine's caches and memory it does not.
TEST(Workers, bounded_workers__carry_as_much_more_as_there_are) {
  const double one = writes_of(1);
  EXPECT_NEAR(one, 12800, 640);
  EXPECT_NEAR(writes_of(2) / one, 2, 0.1);
  EXPECT_NEAR(writes_of(4) / one, 4, 0.2);
}

/// A QP has one writer.
TEST(Workers, one_qp__is_no_faster_with_more_of_them) { EXPECT_EQ(writes_of(2, 1), writes_of(1, 1)); }

}  // namespace
}  // namespace roci::simtest
