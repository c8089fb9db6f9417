#include "tests/fuzz/world.h"

#include <algorithm>

#include "tests/fuzz/require.h"

namespace roci::fuzz {
namespace {

constexpr std::uint32_t kMostSteps = 300;
constexpr std::uint32_t kQueueEntries = 16;
constexpr std::uint32_t kMostElements = 2;
constexpr std::uint32_t kInlineBytes = 64;
constexpr std::uint32_t kSmallCqEntries = 4;
constexpr std::uint32_t kCqEntries = 4096;
constexpr std::uint32_t kFirstPeerQpn = 0x100;
constexpr std::uint32_t kAccessMask = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;

/// So small that a READ is asked for in parts, and that a window fills up.
constexpr WindowPolicy kSmallWindow{.packets = 6, .ack_every_packets = 2, .read_packets = 4};

constexpr std::array<std::uint32_t, 16> kRegionBytes{12288, 10001, 8192, 4096, 4095, 1024, 1000, 257,
                                                     256,   64,    16,   8,    7,    1,    0,    2048};

constexpr std::uint32_t kInitMask = kQpStateAttr | kQpPkeyIndex | kQpPort | kQpAccessFlags;
constexpr std::uint32_t kRtrMask =
    kQpStateAttr | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic | kQpMinRnrTimer;
constexpr std::uint32_t kRtsMask = kQpStateAttr | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpSqPsn | kQpMaxQpRdAtomic;

QpAttr attributes_of(const QpSettings& settings, std::uint32_t number, bool is_v4) {
  const Psn first(settings.first_psn * 0x01'0101u);
  QpAttr attr{.path_mtu = static_cast<std::uint8_t>(1 + settings.mtu % 5),
              .rq_psn = first,
              .sq_psn = first,
              .dest_qpn = Qpn{kFirstPeerQpn + number},
              .access_flags = settings.access & kAccessMask,
              .max_rd_atomic = static_cast<std::uint8_t>(settings.rd_atomic & 0xf),
              .max_dest_rd_atomic = static_cast<std::uint8_t>(settings.rd_atomic >> 4),
              .min_rnr_timer = static_cast<std::uint8_t>(settings.rnr_timer % 32),
              .timeout = static_cast<std::uint8_t>(settings.timeout % 32),
              .retry_cnt = static_cast<std::uint8_t>(settings.retries & 7),
              .rnr_retry = static_cast<std::uint8_t>(settings.retries >> 3 & 7),
              .en_sqd_async_notify = true};
  attr.av.dgid = peer_address(number, is_v4);
  attr.av.sgid_index = is_v4 ? 0 : 1;
  return attr;
}

}  // namespace

GuardedMemory& World::memory() {
  static GuardedMemory memory;
  return memory;
}

World::World(Input& input) {
  memory().reset();
  const std::uint8_t bits = input.u8();
  DeviceConfig config;
  if ((bits & 16) != 0) config.window = kSmallWindow;
  device_ = std::make_unique<Device>(port_, events_, entropy_, counters_, config);
  is_v4_ = (bits & 8) == 0;
  for (Pd*& pd : pds_) require(device_->alloc_pd(&pd) == 0, "a PD can be had");
  require(device_->create_cq((bits & 4) != 0 ? kSmallCqEntries : kCqEntries, nullptr, &cq_) == 0, "a CQ can be had");
  require(device_->create_srq(pds_[0], {.max_wr = kQueueEntries, .max_sge = kMostElements}, &srq_) == 0,
          "an SRQ can be had");
  require(device_->modify_srq(srq_, 2) == 0, "an SRQ has a limit");
  for (std::size_t i = 0; i < kRegions; ++i) {
    const std::uint8_t length_code = input.u8();
    const std::uint8_t access = input.u8();
    make_region(i, length_code, access, input.u8());
  }
  const std::uint32_t count = 1 + (bits & 3) % kMostQps;
  for (std::uint32_t i = 0; i < kMostQps; ++i) {
    if (i < count)
      make_qp(i, input);
    else
      input.take(sizeof(QpSettings));
  }
  update_permissions();
}

World::~World() {
  for (const Endpoint& endpoint : qps_) device_->destroy_qp(endpoint.qp);
  for (const Region& region : regions_)
    if (region.mr != nullptr) device_->dereg_mr(region.mr);
  device_->destroy_srq(srq_);
  device_->destroy_cq(cq_);
  for (Pd* pd : pds_) require(device_->dealloc_pd(pd) == 0, "a PD is free once nothing is in it");
}

void World::make_region(std::size_t number, std::uint8_t length_code, std::uint8_t access, std::uint8_t placement) {
  Region& region = regions_[number];
  const std::uint64_t length = kRegionBytes[length_code % kRegionBytes.size()];
  std::byte* start = memory().last_of(number, length);
  region.pd = access >> 4 & 1;
  const std::array<std::uint64_t, 4> iovas{reinterpret_cast<std::uint64_t>(start), 0, UINT64_MAX - length,
                                           reinterpret_cast<std::uint64_t>(start) + 3};
  // Remote rights to change without the local one are refused; the region is then not there.
  if (device_->reg_mr(pds_[region.pd], start, length, iovas[placement & 3], access & 0xf, &region.mr) != 0)
    region.mr = nullptr;
}

void World::make_qp(std::uint32_t number, Input& input) {
  Endpoint& endpoint = qps_.emplace_back();
  QpSettings& settings = endpoint.settings;
  for (std::uint8_t* field : {&settings.state, &settings.access, &settings.mtu, &settings.rd_atomic, &settings.timeout,
                              &settings.retries, &settings.rnr_timer, &settings.first_psn})
    *field = input.u8();
  endpoint.pd = settings.access >> 5 & 1;
  QpInit init{.send_cq = cq_,
              .recv_cq = cq_,
              .srq = (settings.access & 16) != 0 ? srq_ : nullptr,
              .capacity = {.max_send_wr = kQueueEntries,
                           .max_recv_wr = kQueueEntries,
                           .max_send_sge = kMostElements,
                           .max_recv_sge = kMostElements,
                           .max_inline_data = kInlineBytes},
              .signal_all = (settings.access & 1) != 0};
  require(device_->create_qp(pds_[endpoint.pd], init, &endpoint.qp) == 0, "a QP can be had");
  const auto state = static_cast<QpState>(settings.state % 7);
  if (state == QpState::kReset) return;
  move_to(number, QpState::kInit);
  if (state == QpState::kErr) return move_to(number, QpState::kErr);
  for (const QpState next : {QpState::kRtr, QpState::kRts})
    if (endpoint.qp->state() < state) move_to(number, next);
  if (endpoint.qp->state() != state) move_to(number, state);
}

void World::move_to(std::uint32_t number, QpState state) {
  Endpoint& endpoint = qps_[number];
  QpAttr attr = attributes_of(endpoint.settings, number, is_v4_);
  attr.state = state;
  // RC never gets there by itself, and verbs has no way into it; what the machines do in it is asked all the same.
  if (state == QpState::kSqe) return endpoint.qp->apply(attr, kQpStateAttr);
  take_completions();
  std::uint32_t mask = kQpStateAttr;
  if (state == QpState::kInit) mask = kInitMask;
  if (state == QpState::kRtr) mask = kRtrMask;
  if (state == QpState::kRts && endpoint.qp->state() == QpState::kRtr) mask = kRtsMask;
  if (state == QpState::kSqd && endpoint.qp->state() == QpState::kRts) mask |= kQpEnSqdAsyncNotify;
  if (device_->modify_qp(endpoint.qp, attr, mask) != 0) return;
  if (state == QpState::kReset) {
    ledger_.forget_qp(number);
    if (endpoint.qp->srq() != nullptr) ++srq_resets_;
  }
  if (state == QpState::kRtr) {
    endpoint.expected_psn = attr.rq_psn;
    endpoint.msn = endpoint.write_left = 0;
  }
}

World::Endpoint* World::find(Qpn qpn) {
  for (Endpoint& endpoint : qps_)
    if (endpoint.qp->qpn() == qpn) return &endpoint;
  return nullptr;
}

void World::run(Input& input) {
  for (std::uint32_t i = 0; i < kMostSteps && !input.empty(); ++i) {
    take_step(input);
    if (port_.has_frame() || device_->worker().has_rung()) turn();
    update_permissions();
  }
  end();
}

void World::take_step(Input& input) {
  const std::uint8_t byte = input.u8();
  const std::uint32_t qp = (byte >> 3 & 3) % qps_.size();
  const std::uint32_t region = byte >> 5 & 3;
  switch (static_cast<StepKind>(byte & 7)) {
    case StepKind::kFrame:
      return step_frame(qp, region, input);
    case StepKind::kTemplate:
      return deliver(make_frame(FrameTemplate::read(input), target(qps_[qp], region)));
    case StepKind::kSend:
      return step_send(qp, region, input);
    case StepKind::kReceive:
      return step_receive(qp, region, input);
    case StepKind::kTime:
      return step_time(input.u8());
    case StepKind::kModify:
      return step_modify(qp, input);
    case StepKind::kMemory:
      return step_memory(region, input);
    case StepKind::kLink:
      return step_link(input.u8());
  }
}

void World::step_frame(std::uint32_t qp, std::uint32_t region, Input& input) {
  const std::uint8_t repairs = input.u8();
  const auto offset = static_cast<std::int8_t>(input.u8());
  const auto bytes = std::as_bytes(input.take(input.u16()));
  std::vector<std::byte> frame(bytes.begin(), bytes.end());
  if (frame.size() > FuzzPort::kMostFrameBytes - kMaxFrameBytes) return;
  repair(frame, repairs, offset, target(qps_[qp], region));
  if ((repairs & kCutEnd) != 0) frame.resize(frame.size() - std::min<std::size_t>(frame.size(), 1 + (offset & 15)));
  deliver(frame);
}

std::vector<Sge> World::elements(std::uint32_t region, Input& input) {
  const std::uint8_t second = input.u8();
  const std::uint32_t offset = input.u16();
  const std::uint32_t length = input.u16();
  std::vector<Sge> list;
  if ((second & 4) != 0) return list;
  const Mr* first = regions_[region].mr;
  if (first != nullptr) list.push_back({first->iova + offset % (first->length + 1), length, LKey{first->key}});
  const Mr* other = regions_[second & 3].mr;
  if ((second & 8) != 0 && other != nullptr) list.push_back({other->iova, length / 2, LKey{other->key}});
  if ((second & 16) != 0 && !list.empty()) list.back().lkey.value ^= 0x1'0000;
  if ((second & 32) != 0 && !list.empty()) list.back().length = 1u << 31;
  return list;
}

void World::step_send(std::uint32_t qp, std::uint32_t region, Input& input) {
  Endpoint& endpoint = qps_[qp];
  SendRequest request{.opcode = static_cast<WrOpcode>(input.u8() % 10), .flags = input.u8()};
  request.flags &= kSendFence | kSendSignaled | kSendSolicited | kSendInline;
  std::vector<Sge> list = elements(region, input);
  if ((request.flags & kSendInline) != 0) {
    // Inline data is read by the post itself, from where the caller says.
    for (Sge& sge : list) sge = {reinterpret_cast<std::uint64_t>(memory().last_of(region, 48)), sge.length % 49, {}};
  }
  request.num_sge = static_cast<std::uint32_t>(list.size());
  request.sges = list.data();
  request.remote_addr = 0x10'0000;
  request.rkey = RKey{0x1234'5678};
  request.compare_add = 1;
  const bool is_signaled = (endpoint.settings.access & 1) != 0 || (request.flags & kSendSignaled) != 0;
  const bool may_write = request.opcode >= WrOpcode::kRdmaRead && request.opcode <= WrOpcode::kAtomicFetchAdd;
  request.wr_id =
      ledger_.add({.qp = qp, .is_send = true, .is_signaled = is_signaled, .may_write = may_write, .sges = list});
  if (device_->post_send(endpoint.qp, request) != 0) return ledger_.forget_last();
  // What it writes is known before it is sent.
  update_permissions();
  device_->ring(endpoint.qp);
}

void World::step_receive(std::uint32_t qp, std::uint32_t region, Input& input) {
  Endpoint& endpoint = qps_[qp];
  const std::vector<Sge> list = elements(region, input);
  const bool is_shared = endpoint.qp->srq() != nullptr;
  RecvRequest request{.num_sge = static_cast<std::uint32_t>(list.size()), .sges = list.data()};
  request.wr_id = ledger_.add({.qp = qp, .is_shared = is_shared, .may_write = true, .sges = list});
  const int error = is_shared ? device_->post_srq_recv(srq_, request) : device_->post_recv(endpoint.qp, request);
  if (error != 0) ledger_.forget_last();
}

void World::step_time(std::uint8_t code) {
  const Instant deadline = device_->worker().next_deadline();
  if (code == 255) {
    if (deadline != kNever) now_ = std::max(now_, deadline);
  } else {
    now_ = now_ + nanoseconds(std::int64_t{1} << code % 36);
  }
  turn();
}

void World::step_modify(std::uint32_t qp, Input& input) {
  const std::uint8_t code = input.u8() % 9;
  if (code < 7) {
    move_to(qp, static_cast<QpState>(code));
  } else {
    Endpoint& endpoint = qps_[qp];
    QpAttr attr = attributes_of(endpoint.settings, qp, is_v4_);
    const std::uint8_t value = input.u8();
    attr.access_flags = value & kAccessMask;
    attr.max_rd_atomic = value >> 4;
    const std::uint32_t mask = code == 7 ? std::uint32_t{kQpAccessFlags} : kQpMaxQpRdAtomic | kQpAccessFlags | kQpAv;
    static_cast<void>(device_->modify_qp(endpoint.qp, attr, mask));
  }
  turn();
}

void World::step_memory(std::uint32_t region, Input& input) {
  const std::uint8_t code = input.u8();
  const std::uint8_t access = input.u8();
  Region& changed = regions_[region];
  if (changed.mr == nullptr) return make_region(region, code >> 2, access, code & 3);
  const std::uint32_t rights = access & 0xf;
  if ((code & 1) != 0) {
    static_cast<void>(device_->rereg_mr(changed.mr, nullptr, nullptr, &rights));
  } else {
    device_->dereg_mr(changed.mr);
    changed.mr = nullptr;
  }
}

void World::step_link(std::uint8_t code) {
  constexpr std::array<std::size_t, 4> kRoom{16, 0, 1, 3};
  port_.room_frames = kRoom[code & 3];
  port_.stalled = (code & 4) != 0;
  turn();
}

Target World::target(const Endpoint& endpoint, std::uint32_t region) const {
  Qp& qp = *endpoint.qp;
  Target target{.source = peer_address(number_of(endpoint), is_v4_),
                .destination = own_address(is_v4_),
                .qpn = qp.qpn(),
                .request_psn = endpoint.expected_psn,
                .response_psn = qp.requester().unacked_psn(),
                .mtu_bytes = qp.mtu(),
                .write_left = endpoint.write_left};
  const SendWqe* oldest = qp.requester().oldest();
  if (oldest != nullptr && oldest->opcode == WrOpcode::kRdmaRead) {
    const auto done = static_cast<std::uint32_t>(std::max(0, target.response_psn.distance_from(oldest->first_psn)));
    const std::uint64_t done_bytes = std::uint64_t{done} << qp.mtu_shift();
    if (done_bytes < oldest->length) target.read_left = oldest->length - static_cast<std::uint32_t>(done_bytes);
  }
  if (const Mr* mr = regions_[region].mr; mr != nullptr) {
    target.rkey = RKey{mr->key};
    target.va = mr->iova;
    target.region_bytes = mr->length;
  }
  return target;
}

}  // namespace roci::fuzz
