// Objects that QPs of several workers share: an SRQ, a CQ, an address handle.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "drivers/sim/rc_connection.h"
#include "drivers/sim/simulation.h"

namespace roci::simtest {
namespace {

constexpr std::uint32_t kWorkers = 2;
constexpr std::uint32_t kQps = 4;
constexpr std::uint32_t kDepth = 32;
constexpr std::uint32_t kQkey = 0x1111'1111;
constexpr std::uint32_t kReceiveBytes = 64;

struct Side {
  sim::SimHost* host = nullptr;
  Pd* pd = nullptr;
  Cq* cq = nullptr;
  Srq* srq = nullptr;
  Mr* mr = nullptr;
  std::vector<Qp*> qps;
  std::vector<std::byte> memory = std::vector<std::byte>(kDepth * kReceiveBytes);

  Device& device() const { return host->device(); }
  Sge sge(std::uint32_t offset, std::uint32_t length) const { return {offset, length, LKey{mr->key}}; }
  std::vector<Cqe> completions() const {
    std::vector<Cqe> found(2 * kDepth);
    found.resize(cq->poll(found));
    return found;
  }
};

/// Two hosts of two workers, each with QPs that have one CQ and one SRQ.
class SharedObjects : public testing::TestWithParam<QpType> {
 protected:
  SharedObjects() {
    for (Side* side : {&a, &b}) make(*side);
    for (std::uint32_t i = 0; i < kQps; ++i) {
      connect(a, b, i);
      connect(b, a, i);
    }
    const AddressVector av{.dgid = sim::v4_address(b.host->number())};
    EXPECT_EQ(a.device().create_ah(a.pd, av, &ah), 0);
  }
  ~SharedObjects() override {
    if (ah != nullptr) a.device().destroy_ah(ah);
    for (Side* side : {&a, &b}) {
      for (Qp* qp : side->qps) side->device().destroy_qp(qp);
      side->device().destroy_srq(side->srq);
      side->device().destroy_cq(side->cq);
      side->device().dereg_mr(side->mr);
      EXPECT_EQ(side->device().dealloc_pd(side->pd), 0);
    }
  }

  void make(Side& side) {
    side.host = &simulation.add_host({.workers = kWorkers});
    EXPECT_EQ(side.device().alloc_pd(&side.pd), 0);
    EXPECT_EQ(side.device().create_cq(2 * kDepth, nullptr, &side.cq), 0);
    EXPECT_EQ(side.device().create_srq(side.pd, {.max_wr = kDepth, .max_sge = 1}, &side.srq), 0);
    EXPECT_EQ(side.device().reg_mr(side.pd, side.memory.data(), side.memory.size(), 0, kAccessLocalWrite, &side.mr), 0);
    for (std::uint32_t i = 0; i < kQps; ++i) {
      QpInit init{.type = GetParam(),
                  .send_cq = side.cq,
                  .recv_cq = side.cq,
                  .srq = side.srq,
                  .capacity = {.max_send_wr = kDepth, .max_send_sge = 1}};
      side.qps.push_back(nullptr);
      EXPECT_EQ(side.device().create_qp(side.pd, init, &side.qps.back()), 0);
    }
  }
  void connect(Side& side, const Side& peer, std::uint32_t i) {
    QpAttr attr{.path_mtu = 3, .qkey = kQkey, .dest_qpn = peer.qps[i]->qpn(), .timeout = 14, .retry_cnt = 7};
    attr.av = {.dgid = sim::v4_address(peer.host->number())};
    if (GetParam() == QpType::kRc) {
      ASSERT_EQ(sim::bring_up(side.device(), side.qps[i], attr), 0);
      return;
    }
    attr.state = QpState::kInit;
    ASSERT_EQ(side.device().modify_qp(side.qps[i], attr, kQpStateAttr | kQpPkeyIndex | kQpPort | kQpQkey), 0);
    attr.state = QpState::kRtr;
    ASSERT_EQ(side.device().modify_qp(side.qps[i], attr, kQpStateAttr), 0);
    attr.state = QpState::kRts;
    ASSERT_EQ(side.device().modify_qp(side.qps[i], attr, kQpStateAttr | kQpSqPsn), 0);
  }
  void post_receives(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const Sge sge = b.sge(i * kReceiveBytes, kReceiveBytes);
      ASSERT_EQ(b.device().post_srq_recv(b.srq, {.wr_id = i, .num_sge = 1, .sges = &sge}), 0);
    }
  }
  /// One message from A by each QP.
  void send_from_all() {
    for (std::uint32_t i = 0; i < kQps; ++i) {
      const Sge sge = a.sge(0, 8);
      ASSERT_EQ(a.host->post_send(a.qps[i], {.flags = kSendSignaled,
                                             .num_sge = 1,
                                             .sges = &sge,
                                             .ah = GetParam() == QpType::kUd ? ah : nullptr,
                                             .remote_qpn = b.qps[i]->qpn(),
                                             .remote_qkey = kQkey}),
                0);
    }
  }
  void run() { simulation.events().run_until(simulation.now() + milliseconds(1)); }
  /// Times that B was told that its SRQ has come to its limit.
  std::ptrdiff_t limit_events() const {
    const std::vector<AsyncEvent>& events = b.host->async_events();
    return std::count_if(events.begin(), events.end(), [this](const AsyncEvent& event) {
      return event.type == AsyncEventType::kSrqLimitReached && event.srq == b.srq;
    });
  }

  sim::Simulation simulation{1};
  Side a;
  Side b;
  AddressHandle* ah = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Types, SharedObjects, testing::Values(QpType::kRc, QpType::kUd));

TEST_P(SharedObjects, srq__each_receive_is_used_once_whoever_takes_it) {
  ASSERT_NE(Device::worker_of(*b.qps[0]), Device::worker_of(*b.qps[1]));
  post_receives(3 * kQps);
  for (int round = 0; round < 3; ++round) send_from_all();
  run();
  std::set<std::uint64_t> used;
  std::set<std::uint32_t> receivers;
  for (const Cqe& cqe : b.completions()) {
    EXPECT_EQ(cqe.status, WcStatus::kSuccess);
    EXPECT_TRUE(used.insert(cqe.wr_id).second) << cqe.wr_id;
    receivers.insert(cqe.qpn.value);
  }
  EXPECT_EQ(used.size(), 3 * kQps);
  EXPECT_EQ(receivers.size(), kQps);
  EXPECT_EQ(a.completions().size(), 3 * kQps);
}

TEST_P(SharedObjects, srq_limit__is_told_of_once_and_again_when_armed_again) {
  post_receives(3 * kQps);
  ASSERT_EQ(b.device().modify_srq(b.srq, 2 * kQps), 0);
  send_from_all();
  run();
  EXPECT_EQ(limit_events(), 0) << "at the limit, not below it";
  send_from_all();
  run();
  EXPECT_EQ(limit_events(), 1);
  EXPECT_EQ(b.device().query_srq_limit(b.srq), 0u);
  ASSERT_EQ(b.device().modify_srq(b.srq, kQps), 0);
  send_from_all();
  run();
  EXPECT_EQ(limit_events(), 2);
}

TEST_P(SharedObjects, completion_event__one_for_one_request_whichever_worker_is_first) {
  post_receives(2 * kQps);
  b.cq->request_notify(false);
  send_from_all();
  run();
  EXPECT_EQ(b.host->completion_events(), 1u);
  send_from_all();
  run();
  EXPECT_EQ(b.host->completion_events(), 1u);
  EXPECT_EQ(b.completions().size(), 2 * kQps);
}

/// Posted by QPs of both workers, destroyed before either has sent.
TEST_P(SharedObjects, address_handle__serves_all_workers_and_outlives_what_was_posted) {
  if (GetParam() != QpType::kUd) return;
  post_receives(kQps);
  send_from_all();
  EXPECT_EQ(ah->posted.load(), kQps);
  EXPECT_EQ(a.device().destroy_ah(ah), 0);
  ah = nullptr;
  run();
  EXPECT_EQ(b.completions().size(), kQps);
}

TEST_P(SharedObjects, multicast_group__has_its_limit_whichever_workers_the_members_are_of) {
  if (GetParam() != QpType::kUd) return;
  const IpAddress group = IpAddress::v4(0xefff'0001);
  for (std::uint32_t i = kQps; i < MulticastGroups::kMaxMembers + 1; ++i) {
    QpInit init{.type = QpType::kUd, .send_cq = a.cq, .recv_cq = a.cq};
    a.qps.push_back(nullptr);
    ASSERT_EQ(a.device().create_qp(a.pd, init, &a.qps.back()), 0);
  }
  for (std::uint32_t i = 0; i < MulticastGroups::kMaxMembers; ++i)
    ASSERT_EQ(a.device().attach_mcast(a.qps[i], group), 0);
  EXPECT_EQ(a.device().attach_mcast(a.qps.back(), group), ENOMEM);
  EXPECT_EQ(a.device().attach_mcast(a.qps[0], group), 0) << "it is in the group already";
  EXPECT_EQ(a.device().detach_mcast(a.qps[0], group), 0);
  EXPECT_EQ(a.device().attach_mcast(a.qps.back(), group), 0);
  EXPECT_EQ(a.device().detach_mcast(a.qps[0], group), EINVAL);
}

}  // namespace
}  // namespace roci::simtest
