// Two whole stacks joined by a wire that the test holds: it sees each frame and decides what becomes of it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "stack/base/bytes.h"
#include "stack/control/device.h"
#include "stack/wire/headers_l3.h"
#include "stack/wire/icrc.h"
#include "stack/wire/packet.h"

namespace roci::test {

using Frame = std::vector<std::byte>;

/// Makes the IPv4 checksum and the ICRC of an untagged frame right again.
inline void seal(Frame& frame) {
  std::byte* l3 = frame.data() + EthernetHeader::kSize;
  const bool is_v4 = load_be<std::uint16_t>(l3 - 2) == kEtherTypeIpv4;
  if (is_v4) {
    store_be<std::uint16_t>(l3 + 10, 0);
    store_be<std::uint16_t>(l3 + 10, static_cast<std::uint16_t>(~ipv4_header_sum(l3)));
  }
  const std::size_t bytes = frame.size() - EthernetHeader::kSize - 4;
  store_icrc(l3 + bytes, compute_icrc(l3, is_v4, bytes));
}

/// Frames go to `sent`; the test moves them on.
class TestPort : public Port {
 public:
  explicit TestPort(std::uint32_t number) : number_(number) {
    store_be<std::uint16_t>(v4_route_.l2.data() + 12, kEtherTypeIpv4);
    store_be<std::uint16_t>(v6_route_.l2.data() + 12, kEtherTypeIpv6);
  }

  PortAttributes attributes() const override {
    return {.mac = {{2, 0, 198, 18, 0, static_cast<std::uint8_t>(number_ + 1)}},
            .addresses = {IpAddress::v4(0xc6120001 + number_), v6_address()},
            .link_mtu_bytes = 4200,
            .speed_bps = 100'000'000'000,
            .qpn_block = number_};
  }
  /// fd18::1 and on.
  IpAddress v6_address() const {
    IpAddress address{{0xfd, 0x18}};
    address.bytes[15] = static_cast<std::uint8_t>(number_ + 1);
    return address;
  }
  Route* acquire_route(const IpAddress& destination, Qpn) override {
    ++routes_in_use;
    return destination.is_v4() ? &v4_route_ : &v6_route_;
  }
  void release_route(Route*) override { --routes_in_use; }
  void join_group(const IpAddress& group) override { groups.push_back(group); }
  void leave_group(const IpAddress& group) override { std::erase(groups, group); }
  void begin_turn(Instant, TurnReason) override {}
  void end_turn(Instant) override {}
  std::size_t rx_burst(std::span<RxFrame> out) override {
    std::size_t count = 0;
    while (count < out.size() && count < arrived.size()) {
      out[count] = {arrived[count].data(), static_cast<std::uint32_t>(arrived[count].size())};
      ++count;
    }
    burst_ = count;
    return count;
  }
  void rx_release() override {
    arrived.erase(arrived.begin(), arrived.begin() + static_cast<std::ptrdiff_t>(burst_));
    burst_ = 0;
  }
  std::size_t tx_reserve(Route&, std::span<TxSlot> out) override {
    const std::size_t room = std::min(out.size(), room_frames);
    for (std::size_t i = 0; i < room; ++i) out[i].data = slots_[i].data();
    return room;
  }
  void tx_commit(Route&, std::span<const std::uint32_t> frame_bytes) override {
    for (std::size_t i = 0; i < frame_bytes.size(); ++i)
      sent.emplace_back(slots_[i].begin(), slots_[i].begin() + frame_bytes[i]);
  }
  bool peer_stalled(const Route&) override { return stalled; }
  Route* link_partner() override { return sends_pfc ? &v4_route_ : nullptr; }
  void prepare_wait(bool) override {}
  bool wait(Duration) override { return false; }
  void cancel_wait() override {}
  void wake() override {}

  std::deque<Frame> sent;
  std::deque<Frame> arrived;
  std::size_t room_frames = 64;
  bool stalled = false;
  bool sends_pfc = false;
  int routes_in_use = 0;
  std::vector<IpAddress> groups;

 private:
  std::uint32_t number_;
  Route v4_route_;
  Route v6_route_;
  std::size_t burst_ = 0;
  std::array<std::array<std::byte, kMaxFrameBytes>, 64> slots_{};
};

class TestEntropy : public Entropy {
 public:
  std::uint64_t next() override { return value_ += 0x9e37'79b9'7f4a'7c15; }

 private:
  std::uint64_t value_ = 1;
};

class EventLog : public EventSink {
 public:
  void on_completion_event(Cq& cq) override { completions.push_back(&cq); }
  void on_async_event(const AsyncEvent& event) override { async.push_back(event); }

  std::vector<Cq*> completions;
  std::vector<AsyncEvent> async;
};

/// One host: a device with one PD, one CQ, one QP and one registered buffer.
struct Host {
  explicit Host(std::uint32_t number, const DeviceConfig& config = {}) : port(number) {
    device = std::make_unique<Device>(port, events, entropy, counters, config);
    EXPECT_EQ(device->alloc_pd(&pd), 0);
    EXPECT_EQ(device->create_cq(1000, nullptr, &cq), 0);
    register_memory(kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic);
  }
  ~Host() {
    if (qp != nullptr) device->destroy_qp(qp);
    if (srq != nullptr) device->destroy_srq(srq);
    device->dereg_mr(mr);
    device->destroy_cq(cq);
    device->dealloc_pd(pd);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void register_memory(std::uint32_t access) {
    if (mr != nullptr) device->dereg_mr(mr);
    ASSERT_EQ(device->reg_mr(pd, memory.data(), memory.size(), address(0), access, &mr), 0);
  }
  std::uint64_t address(std::size_t offset) { return reinterpret_cast<std::uint64_t>(memory.data()) + offset; }
  Sge sge(std::size_t offset, std::uint32_t length) { return {address(offset), length, LKey{mr->key}}; }

  void create_qp(QpType type = QpType::kRc) {
    QpInit init{
        .type = type,
        .send_cq = cq,
        .recv_cq = cq,
        .srq = srq,
        .capacity = {
            .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128}};
    ASSERT_EQ(device->create_qp(pd, init, &qp), 0);
  }
  void connect(Host& peer, const QpAttr& wanted) {
    if (qp->type() == QpType::kUd) return bring_up_datagrams(wanted);
    const bool is_rc = qp->type() == QpType::kRc;
    QpAttr attr = wanted;
    attr.state = QpState::kInit;
    ASSERT_EQ(device->modify_qp(qp, attr, kQpStateAttr | kQpPkeyIndex | kQpPort | kQpAccessFlags), 0);
    attr.state = QpState::kRtr;
    attr.dest_qpn = peer.qp->qpn();
    attr.av.dgid = peer.port.attributes().addresses[0];
    const std::uint32_t rtr = kQpStateAttr | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn;
    ASSERT_EQ(device->modify_qp(qp, attr, is_rc ? rtr | kQpMaxDestRdAtomic | kQpMinRnrTimer : rtr), 0);
    attr.state = QpState::kRts;
    const std::uint32_t reliable = kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic;
    ASSERT_EQ(device->modify_qp(qp, attr, kQpStateAttr | kQpSqPsn | (is_rc ? reliable : 0)), 0);
  }
  void bring_up_datagrams(const QpAttr& wanted) {
    QpAttr attr = wanted;
    attr.state = QpState::kInit;
    ASSERT_EQ(device->modify_qp(qp, attr, kQpStateAttr | kQpPkeyIndex | kQpPort | kQpQkey), 0);
    attr.state = QpState::kRtr;
    ASSERT_EQ(device->modify_qp(qp, attr, kQpStateAttr), 0);
    attr.state = QpState::kRts;
    ASSERT_EQ(device->modify_qp(qp, attr, kQpStateAttr | kQpSqPsn), 0);
  }

  std::vector<Cqe> completions() {
    std::vector<Cqe> out(100);
    out.resize(cq->poll(out));
    return out;
  }
  void post(const SendRequest& request) {
    ASSERT_EQ(device->post_send(qp, request), 0);
    device->ring(qp);
  }
  void post_receive(std::uint64_t wr_id, const Sge& element) {
    ASSERT_EQ(device->post_recv(qp, {.wr_id = wr_id, .num_sge = 1, .sges = &element}), 0);
  }

  TestPort port;
  EventLog events;
  TestEntropy entropy;
  Counters counters;
  std::unique_ptr<Device> device;
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 20);
  Pd* pd = nullptr;
  Cq* cq = nullptr;
  Mr* mr = nullptr;
  Srq* srq = nullptr;
  Qp* qp = nullptr;
};

/// "RC_SEND_ONLY psn=7", with "ack" for the AckReq bit, and syndrome and MSN where there is an AETH.
inline std::string describe(const Frame& frame) {
  PacketView view;
  const std::size_t header = std::min<std::size_t>(frame.size(), kHeaderCopyBytes);
  const ParseStatus status = parse_packet({frame.data(), header}, static_cast<std::uint32_t>(frame.size()), &view);
  if (status != ParseStatus::kOk) return "unparsed " + std::to_string(static_cast<int>(status));
  std::string text(view.info->name);
  text += " psn=" + std::to_string(view.bth.psn.value());
  if (view.bth.ack_req) text += " ack";
  if (view.info->has(Extension::kAeth)) {
    const Aeth aeth = view.aeth();
    const std::uint8_t value = aeth.syndrome & 0x1f;
    switch (aeth_kind(aeth.syndrome)) {
      case AethKind::kAck:
        break;
      case AethKind::kRnrNak:
        text += " rnr=" + std::to_string(value);
        break;
      default:
        text += " nak=" + std::to_string(value);
    }
    text += " msn=" + std::to_string(aeth.msn);
  }
  return text;
}

struct WirePair {
  explicit WirePair(const QpAttr& wanted = defaults(), const DeviceConfig& config = {}, QpType type = QpType::kRc)
      : a(0, config), b(1, config) {
    a.create_qp(type);
    b.create_qp(type);
    a.connect(b, wanted);
    b.connect(a, wanted);
  }

  static QpAttr defaults() {
    return {.path_mtu = 3,
            .qkey = 0x11111111,
            .rq_psn = Psn(100),
            .sq_psn = Psn(100),
            .access_flags = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic,
            .max_rd_atomic = 4,
            .max_dest_rd_atomic = 4,
            .min_rnr_timer = 12,
            .timeout = 14,
            .retry_cnt = 7,
            .rnr_retry = 7};
  }

  /// Turns both until nothing moves. Each frame goes through `deliver`: true lets it pass.
  void run(const std::function<bool(Frame&)>& deliver = [](Frame&) { return true; }) {
    for (int idle = 0; idle < 2;) {
      idle = step(a, b, deliver) + step(b, a, deliver) == 0 ? idle + 1 : 0;
      now = now + nanoseconds(100);
    }
  }

  /// Lets time pass until the next deadline of either, then runs.
  void run_next_deadline() {
    const Instant next = std::min(a.device->worker().next_deadline(), b.device->worker().next_deadline());
    ASSERT_NE(next, kNever);
    now = std::max(now, next);
    run();
  }

  Host a;
  Host b;
  Instant now{1'000'000};
  std::vector<std::string> log;  ///< "> " from a, "< " from b

 private:
  std::size_t step(Host& from, Host& to, const std::function<bool(Frame&)>& deliver) {
    from.device->worker().turn(now, TurnReason::kPoll);
    const std::size_t count = from.port.sent.size();
    for (; !from.port.sent.empty(); from.port.sent.pop_front()) {
      Frame frame = from.port.sent.front();
      const bool passes = deliver(frame);
      log.push_back((&from == &a ? "> " : "< ") + describe(frame) + (passes ? "" : " LOST"));
      if (passes) to.port.arrived.push_back(std::move(frame));
    }
    return count;
  }
};

}  // namespace roci::test
