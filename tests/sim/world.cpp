#include "tests/sim/world.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "stack/base/assert.h"

namespace roci::simtest {
namespace {

constexpr std::uint64_t kMemoryStream = 2'000'000;
constexpr std::uint64_t kApplicationStream = 3'000'000;
constexpr std::uint32_t kCqEntries = 8192;
constexpr std::size_t kFaultRecords = 1 << 16;
constexpr std::uint64_t kIovaStep = std::uint64_t{1} << 40;
constexpr std::uint32_t kRemoteRights = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
constexpr std::uint32_t kAllRemote = kAccessLocalWrite | kAccessMwBind | kRemoteRights;
/// Receives carry this bit in their wr_id.
constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;
constexpr std::uint32_t kEndpointShift = 32;

std::uint64_t wr_id(const Endpoint& endpoint, std::size_t index) {
  return std::uint64_t{endpoint.index} << kEndpointShift | index;
}

std::string name_of(const Endpoint& endpoint) { return "QP " + std::to_string(endpoint.index); }

WrOpcode wr_opcode(OpKind kind) {
  constexpr std::array<WrOpcode, kOpKinds> kOpcodes{
      WrOpcode::kSend,     WrOpcode::kSendWithImm,  WrOpcode::kRdmaWrite,      WrOpcode::kRdmaWriteWithImm,
      WrOpcode::kRdmaRead, WrOpcode::kAtomicCmpSwp, WrOpcode::kAtomicFetchAdd, WrOpcode::kSendWithInv,
      WrOpcode::kBindMw,   WrOpcode::kLocalInv};
  return kOpcodes[static_cast<std::size_t>(kind)];
}

/// How an operation with this flaw completes, if its peer's answer is heard.
WcStatus status_of(Flaw flaw) {
  switch (flaw) {
    case Flaw::kNone:
      return WcStatus::kSuccess;
    case Flaw::kRemoteRange:
    case Flaw::kRemoteKey:
    case Flaw::kStaleWindow:
      return WcStatus::kRemAccessErr;
    case Flaw::kMisaligned:
    case Flaw::kShortReceive:
      return WcStatus::kRemInvReqErr;
    case Flaw::kLocalKey:
      return WcStatus::kLocProtErr;
    case Flaw::kWindowRule:
      return WcStatus::kMwBindErr;
  }
  return WcStatus::kSuccess;
}

WcOpcode wc_opcode(OpKind kind) {
  constexpr std::array<WcOpcode, kOpKinds> kOpcodes{
      WcOpcode::kSend,     WcOpcode::kSend,     WcOpcode::kRdmaWrite, WcOpcode::kRdmaWrite, WcOpcode::kRdmaRead,
      WcOpcode::kCompSwap, WcOpcode::kFetchAdd, WcOpcode::kSend,      WcOpcode::kBindMw,    WcOpcode::kLocalInv};
  return kOpcodes[static_cast<std::size_t>(kind)];
}

}  // namespace

void Region::forget(std::uint32_t offset, std::uint32_t length) {
  std::fill_n(unknown.begin() + static_cast<std::ptrdiff_t>(kGuardBytes + offset), length, true);
}

World::World(const Plan& plan, std::uint32_t workers, bool trace)
    : plan_(plan), workers_(workers), wire_(trace), simulation_(plan.seed) {
  sim::LinkConfig link = plan.link;
  if (!plan.faults_at_ports) {
    link_faults_ = std::make_unique<FaultInjector>(plan.faults, kFaultRecords);
    injectors_.push_back(link_faults_.get());
    link.faults = link_faults_.get();
  }
  simulation_.network().set_default_link(link);
  make_hosts();
  for (std::uint32_t i = 0; i < plan.endpoints.size(); ++i) make_endpoint(i);
  for (auto& endpoint : endpoints_) connect(*endpoint);
  for (auto& endpoint : endpoints_) post_receives(*endpoint, endpoint->plan->receives_at_start);
  for (std::uint32_t i = 0; i < plan.hosts; ++i) post_srq_receives(i, plan.srqs[i].at_start);
  schedule();
}

World::~World() {
  for (auto& endpoint : endpoints_) endpoint->host->device().destroy_qp(endpoint->qp);
  for (auto& endpoint : endpoints_) {
    Device& device = endpoint->host->device();
    device.dealloc_mw(endpoint->spare);
    if (endpoint->window != nullptr) device.dealloc_mw(endpoint->window);
    for (Region* region : {&endpoint->local, &endpoint->receive, &endpoint->target})
      ROCI_ASSERT(device.dereg_mr(region->mr) == 0);
  }
  for (HostState& state : hosts_) {
    Device& device = state.host->device();
    if (state.srq != nullptr) {
      ROCI_ASSERT(device.destroy_srq(state.srq) == 0);
      device.dereg_mr(state.srq_region.mr);
    }
    device.dereg_mr(state.shared.mr);
    for (Cq* cq : state.cqs) device.destroy_cq(cq);
    ROCI_ASSERT(device.dealloc_pd(state.pd) == 0);
  }
}

void World::wrong(const std::string& what) {
  if (!wrong_.empty()) return;
  wrong_ = "at " + std::to_string((simulation_.now() - Instant{}).ns()) + " ns: " + what;
}

void World::make_hosts() {
  for (std::uint32_t i = 0; i < plan_.hosts; ++i) {
    sim::HostConfig config{.workers = workers_, .turn_jitter = plan_.turn_jitter};
    config.decorate = [this, i](std::unique_ptr<Port> port) { return decorate(std::move(port), i); };
    hosts_.push_back({.host = &simulation_.add_host(config)});
    HostState& state = hosts_.back();
    ROCI_ASSERT(state.host->device().alloc_pd(&state.pd) == 0);
    make_region(state.shared, state, kSharedWords * kWordBytes, kAllRemote, (i + 1) * kIovaStep);
    std::fill_n(state.shared.at(0), kSharedWords * kWordBytes, std::byte{});
    state.shared.expected = state.shared.memory;
    state.shared.forget(0, kSharedWords * kWordBytes);
    if (plan_.srqs[i].used) make_srq(state, plan_.srqs[i], i);
    state.host->set_application([this, i] { poll(i); });
  }
}

std::unique_ptr<Port> World::decorate(std::unique_ptr<Port> port, std::uint32_t host) {
  if (plan_.faults_at_ports) {
    FaultScript script = plan_.faults;
    script.seed += injectors_.size();
    auto faulty = std::make_unique<FaultPort>(std::move(port), script, FaultLine::kDefaultFrames, kFaultRecords);
    injectors_.push_back(&faulty->injector());
    port = std::move(faulty);
  }
  return std::make_unique<RecordedPort>(std::move(port), wire_, host);
}

void World::make_region(Region& region, HostState& state, std::uint32_t bytes, std::uint32_t access,
                        std::uint64_t iova) {
  Random random(plan_.seed, kMemoryStream + iova / kIovaStep);
  region.memory.resize(bytes + 2 * Region::kGuardBytes);
  for (std::size_t i = 0; i < region.memory.size(); i += 8) {
    const std::uint64_t word = random.next();
    for (std::size_t j = i; j < std::min(i + 8, region.memory.size()); ++j)
      region.memory[j] = static_cast<std::byte>(word >> (j - i) * 8);
  }
  region.unknown.resize(region.memory.size());
  region.iova = iova;
  ROCI_ASSERT(state.host->device().reg_mr(state.pd, region.at(0), bytes, iova, access, &region.mr) == 0);
}

void World::make_srq(HostState& state, const PlannedSrq& planned, std::uint32_t host) {
  make_region(state.srq_region, state, planned.receive_bytes, kAccessLocalWrite, (50 + host) * kIovaStep);
  state.srq_region.expected = state.srq_region.memory;
  state.srq_completed.resize(planned.receives.size());
  ROCI_ASSERT(state.host->device().create_srq(state.pd, {.max_wr = planned.max_wr, .max_sge = 4}, &state.srq) == 0);
}

void World::make_endpoint(std::uint32_t index) {
  auto endpoint = std::make_unique<Endpoint>();
  endpoint->plan = &plan_.endpoints[index];
  endpoint->index = index;
  HostState& state = hosts_[endpoint->plan->host];
  endpoint->host = state.host;
  endpoint->random = Random(plan_.seed, kApplicationStream + index);
  const std::uint64_t iova = (100 + 3 * std::uint64_t{index}) * kIovaStep;
  make_region(endpoint->local, state, endpoint->plan->local_bytes, kAccessLocalWrite, iova);
  make_region(endpoint->receive, state, endpoint->plan->receive_bytes, kAccessLocalWrite, iova + kIovaStep);
  make_region(endpoint->target, state, endpoint->plan->target_bytes, kAllRemote, iova + 2 * kIovaStep);
  std::fill_n(endpoint->target.at(endpoint->plan->words), kPrivateWords * kWordBytes, std::byte{});
  for (Region* region : {&endpoint->local, &endpoint->receive, &endpoint->target}) region->expected = region->memory;
  Device& device = state.host->device();
  ROCI_ASSERT(device.create_cq(kCqEntries, nullptr, &endpoint->cq) == 0);
  state.cqs.push_back(endpoint->cq);
  // Some QPs share a CQ with an earlier one of their host for sends, some have one for both.
  QpInit init{.send_cq = endpoint->random.chance(0.3) ? state.cqs.front() : endpoint->cq,
              .recv_cq = endpoint->cq,
              .srq = endpoint->plan->uses_srq ? state.srq : nullptr,
              .capacity = endpoint->plan->capacity,
              .signal_all = endpoint->plan->signal_all};
  ROCI_ASSERT(device.create_qp(state.pd, init, &endpoint->qp) == 0);
  make_windows(*endpoint);
  endpoints_.push_back(std::move(endpoint));
}

/// Binds the peer's window at once: what the peer does with it does not wait for a turn.
void World::make_windows(Endpoint& endpoint) {
  HostState& state = state_of(endpoint);
  Device& device = state.host->device();
  ROCI_ASSERT(device.alloc_mw(state.pd, KeyKind::kWindow2, &endpoint.spare) == 0);
  if (!endpoint.plan->has_window || endpoint.plan->target_bytes == 0) return;
  ROCI_ASSERT(device.alloc_mw(state.pd, KeyKind::kWindow2, &endpoint.window) == 0);
  endpoint.window_key = endpoint.window->key;
  const WindowBinding binding{.window_key = endpoint.window_key,
                              .region_key = endpoint.target.mr->key,
                              .va = endpoint.target.iova,
                              .length = endpoint.plan->target_bytes,
                              .access = kRemoteRights | (endpoint.plan->zero_based ? kAccessZeroBased : 0u)};
  ROCI_ASSERT(device.worker().env().keys.bind(binding, state.pd, endpoint.qp->qpn()));
}

void World::connect(Endpoint& endpoint) {
  const Endpoint& peer = peer_of(endpoint);
  wire_.connect(endpoint.qp->qpn(), peer.qp->qpn(), mtu_bytes(endpoint.plan->attr.path_mtu));
  Device& device = endpoint.host->device();
  QpAttr attr = endpoint.plan->attr;
  attr.dest_qpn = peer.qp->qpn();
  attr.av.sgid_index = endpoint.plan->is_v4 ? 0 : 1;
  attr.av.dgid = endpoint.plan->is_v4 ? sim::v4_address(peer.plan->host) : sim::v6_address(peer.plan->host);
  attr.state = QpState::kInit;
  ROCI_ASSERT(device.modify_qp(endpoint.qp, attr, kQpStateAttr | kQpPkeyIndex | kQpPort | kQpAccessFlags) == 0);
  attr.state = QpState::kRtr;
  ROCI_ASSERT(device.modify_qp(endpoint.qp, attr,
                               kQpStateAttr | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic |
                                   kQpMinRnrTimer) == 0);
  attr.state = QpState::kRts;
  ROCI_ASSERT(device.modify_qp(endpoint.qp, attr,
                               kQpStateAttr | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpSqPsn | kQpMaxQpRdAtomic) ==
              0);
}

void World::schedule() {
  sim::EventQueue& events = simulation_.events();
  for (auto& endpoint : endpoints_) events.call_at(Instant{}, [this, &endpoint] { wake(*endpoint); });
  events.call_at(plan_.faults_end, [this] {
    for (FaultInjector* injector : injectors_) injector->enable(false);
  });
  if (!plan_.stop.happens) return;
  sim::SimHost* host = hosts_[plan_.stop.host].host;
  events.call_at(plan_.stop.at, [this, host] { host->stop(plan_.stop.known); });
  events.call_at(plan_.stop.at + plan_.stop.length, [host] { host->resume(); });
}

void World::wake(Endpoint& endpoint) {
  post_receives(endpoint, endpoint.random.below(16));
  // After a failure only a few more are posted: they must be flushed.
  const std::size_t limit = endpoint.failed ? endpoint.failed_op + 40 : endpoint.plan->ops.size();
  if (endpoint.ops_posted < limit) post_ops(endpoint, endpoint.random.between(1, endpoint.plan->post_burst));
  if (endpoint.ops_posted >= std::min(limit, endpoint.plan->ops.size()) && all_receives_posted(endpoint)) return;
  const Duration gap{
      static_cast<std::int64_t>(endpoint.random.below(2 * static_cast<std::uint64_t>(endpoint.plan->post_gap.ps)) + 1)};
  simulation_.events().call_at(simulation_.now() + gap, [this, &endpoint] { wake(endpoint); });
}

bool World::all_receives_posted(const Endpoint& endpoint) const {
  if (endpoint.plan->uses_srq)
    return hosts_[endpoint.plan->host].srq_posted == plan_.srqs[endpoint.plan->host].receives.size();
  return endpoint.receives_posted == endpoint.plan->receives.size();
}

int World::post_receive(Endpoint* endpoint, HostState& state, Region& region, const PlannedReceive& planned,
                        std::uint64_t id) {
  std::array<Sge, 8> sges;
  for (std::size_t i = 0; i < planned.pieces.size(); ++i)
    sges[i] = {region.iova + planned.pieces[i].offset, planned.pieces[i].length, LKey{region.mr->key}};
  const RecvRequest request{
      .wr_id = id | kReceiveBit, .num_sge = static_cast<std::uint32_t>(planned.pieces.size()), .sges = sges.data()};
  Device& device = state.host->device();
  const int error =
      endpoint == nullptr ? device.post_srq_recv(state.srq, request) : device.post_recv(endpoint->qp, request);
  if (error != 0 && error != ENOMEM) wrong("posting a receive gave " + std::to_string(error));
  return error;
}

void World::post_receives(Endpoint& endpoint, std::uint64_t most) {
  if (endpoint.plan->uses_srq) return post_srq_receives(endpoint.plan->host, most);
  for (; most > 0 && endpoint.receives_posted < endpoint.plan->receives.size(); --most) {
    const PlannedReceive& planned = endpoint.plan->receives[endpoint.receives_posted];
    const std::uint64_t id = wr_id(endpoint, endpoint.receives_posted);
    if (post_receive(&endpoint, state_of(endpoint), endpoint.receive, planned, id) != 0) break;
    ++endpoint.receives_posted;
  }
  endpoint.host->request_turn();
}

void World::post_srq_receives(std::uint32_t host, std::uint64_t most) {
  HostState& state = hosts_[host];
  const PlannedSrq& srq = plan_.srqs[host];
  for (; most > 0 && state.srq_posted < srq.receives.size(); --most) {
    if (post_receive(nullptr, state, state.srq_region, srq.receives[state.srq_posted], state.srq_posted) != 0) break;
    ++state.srq_posted;
  }
}

void World::post_ops(Endpoint& endpoint, std::uint64_t most) {
  while (most-- > 0 && endpoint.ops_posted < endpoint.plan->ops.size() && post_op(endpoint)) {
  }
}

/// Binds the spare window to the host's shared words, or invalidates it.
SendRequest World::make_local_request(Endpoint& endpoint, const PlannedOp& op) {
  const Region& shared = state_of(endpoint).shared;
  SendRequest request{.wr_id = wr_id(endpoint, endpoint.ops_posted), .opcode = wr_opcode(op.kind), .flags = op.flags};
  if (op.kind == OpKind::kLocalInv) {
    request.imm_or_rkey = endpoint.spare->key;
    return request;
  }
  request.imm_or_rkey = shared.mr->key;
  request.remote_addr = shared.iova;
  request.rkey = RKey{endpoint.spare->key};
  request.compare_add = kAccessRemoteRead;
  request.swap = kSharedWords * kWordBytes;
  return request;
}

bool World::post_op(Endpoint& endpoint) {
  // Key bits that are drawn at random, so that the key is nobody's.
  constexpr std::uint32_t kOtherKey = 0x5a5a'0000;
  const PlannedOp& op = endpoint.plan->ops[endpoint.ops_posted];
  const bool is_inline = (op.flags & kSendInline) != 0;
  const LKey lkey{endpoint.local.mr->key ^ (op.flaw == Flaw::kLocalKey ? kOtherKey : 0)};
  std::array<Sge, 8> sges;
  for (std::size_t i = 0; i < op.local.size(); ++i) {
    const Piece& piece = op.local[i];
    const std::uint64_t address = is_inline ? reinterpret_cast<std::uint64_t>(endpoint.local.at(piece.offset))
                                            : endpoint.local.iova + piece.offset;
    sges[i] = {address, piece.length, lkey};
  }
  Region& remote = op.shared ? state_of(peer_of(endpoint)).shared : peer_of(endpoint).target;
  std::uint64_t address = remote.iova + op.remote;
  if (op.flaw == Flaw::kRemoteRange) address = remote.iova + peer_of(endpoint).plan->target_bytes + 1 - op.length;
  if (op.flaw == Flaw::kMisaligned) address += 4;
  if (op.by_window && peer_of(endpoint).plan->zero_based) address -= remote.iova;
  const std::uint32_t window_key = peer_of(endpoint).window_key;
  const std::uint32_t rkey = op.by_window ? window_key : remote.mr->key;
  const SendRequest request = op.is_local()
                                  ? make_local_request(endpoint, op)
                                  : SendRequest{.wr_id = wr_id(endpoint, endpoint.ops_posted),
                                                .opcode = wr_opcode(op.kind),
                                                .flags = op.flags,
                                                .num_sge = static_cast<std::uint32_t>(op.local.size()),
                                                .sges = sges.data(),
                                                .imm_or_rkey = op.kind == OpKind::kSendInv ? window_key : op.imm,
                                                .remote_addr = address,
                                                .rkey = RKey{rkey ^ (op.flaw == Flaw::kRemoteKey ? kOtherKey : 0)},
                                                .compare_add = op.compare_add,
                                                .swap = op.swap};
  const int error = endpoint.host->post_send(endpoint.qp, request);
  if (error == ENOMEM) return false;
  if (error != 0) {
    wrong(name_of(endpoint) + ": post_send gave " + std::to_string(error));
    return false;
  }
  // Inline data is the stack's from now on: the buffer may be used for something else.
  if (is_inline)
    for (const Piece& piece : op.local)
      for (std::uint32_t i = 0; i < piece.length; ++i) endpoint.local.at(piece.offset)[i] ^= std::byte{0xff};
  ++endpoint.ops_posted;
  return true;
}

void World::poll(std::uint32_t host) {
  for (Cq* cq : hosts_[host].cqs) {
    std::array<Cqe, 64> cqes;
    for (std::size_t n = cq->poll(cqes); n > 0; n = cq->poll(cqes)) {
      for (const Cqe& cqe : std::span(cqes).first(n)) {
        Endpoint* endpoint = endpoint_of(cqe.qpn);
        if (endpoint == nullptr || endpoint->plan->host != host) return wrong("a completion names no QP of the host");
        if ((cqe.wr_id & kReceiveBit) != 0)
          on_receive_completion(*endpoint, cqe);
        else
          on_send_completion(*endpoint, cqe);
      }
    }
  }
}

Endpoint* World::endpoint_of(Qpn qpn) {
  for (auto& endpoint : endpoints_)
    if (endpoint->qp->qpn() == qpn) return endpoint.get();
  return nullptr;
}

void World::on_send_completion(Endpoint& endpoint, const Cqe& cqe) {
  const std::size_t index = cqe.wr_id & UINT32_MAX;
  std::string op = name_of(endpoint) + " operation " + std::to_string(index);
  if (cqe.wr_id >> kEndpointShift != endpoint.index) return wrong(op + ": completes on another QP");
  if (index >= endpoint.ops_posted) return wrong(op + ": completes, but was never posted");
  if (index < endpoint.ops_completed) return wrong(op + ": completes twice, or out of order");
  const PlannedOp& planned = endpoint.plan->ops[index];
  op += " (" + std::string(op_name(planned.kind)) + ")";
  // Operations that completed with success and are not signalled say nothing.
  for (std::size_t i = endpoint.ops_completed; i < index; ++i) {
    if (endpoint.failed) return wrong(op + ": an operation before it was not flushed");
    if (endpoint.plan->is_signaled(i)) return wrong(op + ": completes before operation " + std::to_string(i));
  }
  endpoint.ops_completed = index + 1;
  if (cqe.opcode != wc_opcode(planned.kind)) wrong(op + ": completes with another operation's opcode");
  if (endpoint.failed || endpoint.closing) {
    if (cqe.status != WcStatus::kWrFlushErr)
      wrong(op + ": not flushed, status " + std::to_string(static_cast<int>(cqe.status)));
    return;
  }
  if (cqe.status == WcStatus::kSuccess) {
    if (planned.flaw != Flaw::kNone)
      wrong(op + ": completes with success, though it has flaw " + std::to_string(static_cast<int>(planned.flaw)));
    if (!endpoint.plan->is_signaled(index)) wrong(op + ": not signalled, but completes with success");
    return;
  }
  endpoint.failed = true;
  endpoint.failed_op = index;
  if (!error_is_justified(endpoint, cqe))
    wrong(op + ": status " + std::to_string(static_cast<int>(cqe.status)) + " without a cause");
}

bool World::error_is_justified(const Endpoint& endpoint, const Cqe& cqe) const {
  const PlannedOp& op = endpoint.plan->ops[cqe.wr_id & UINT32_MAX];
  if (op.flaw != Flaw::kNone && cqe.status == status_of(op.flaw)) return true;
  const Endpoint& peer = peer_of(endpoint);
  // A QP whose peer offended it is in error, and flushes what it has.
  if (cqe.status == WcStatus::kWrFlushErr)
    return endpoint.qp->state() == QpState::kErr && peer.plan->offends_peer(peer.ops_posted);
  if (cqe.status != WcStatus::kRetryExcErr) return false;
  const QpAttr& attr = endpoint.plan->attr;
  const Duration timeout = nanoseconds(std::int64_t{4096} << attr.timeout);
  const std::vector<Instant> attempts = wire_.attempts_of(endpoint.qp->qpn(), endpoint.qp->requester().unacked_psn(),
                                                          simulation_.now(), attr.retry_cnt + 1u, timeout);
  // A peer in error or stopped says nothing, and a slow link may be late without faults.
  if (attempts.empty() || peer.qp->state() == QpState::kErr || plan_.stop.happens || plan_.is_slow())
    return !attempts.empty();
  Instant until = simulation_.now();
  for (const Instant attempt : attempts) {
    if (!was_disturbed(endpoint, attempt, until)) return false;
    until = attempt;
  }
  return true;
}

bool World::was_disturbed(const Endpoint& endpoint, Instant from, Instant to) const {
  for (const FaultInjector* injector : injectors_) {
    if (injector->unlogged() > 0) return true;
    for (const FaultRecord& record : injector->log()) {
      if (record.at < from || record.at > to) continue;
      if (record.action == FaultAction::kDuplicate || record.action == FaultAction::kMarkCe) continue;
      if (record.dest_qpn == endpoint.qp->qpn() || record.dest_qpn == peer_of(endpoint).qp->qpn()) return true;
    }
  }
  return false;
}

/// The receive is one that is posted, and its turn; false if not.
bool World::take_receive(Endpoint& endpoint, const Cqe& cqe) {
  const std::size_t index = cqe.wr_id & UINT32_MAX;
  if (endpoint.plan->uses_srq) {
    HostState& state = state_of(endpoint);
    if (index >= state.srq_posted || state.srq_completed[index]) return false;
    state.srq_completed[index] = true;
    return true;
  }
  if ((cqe.wr_id & ~kReceiveBit) >> kEndpointShift != endpoint.index) return false;
  if (index != endpoint.receives_completed || index >= endpoint.receives_posted) return false;
  ++endpoint.receives_completed;
  return true;
}

void World::on_receive_completion(Endpoint& endpoint, const Cqe& cqe) {
  const std::size_t index = cqe.wr_id & UINT32_MAX;
  const std::string receive = name_of(endpoint) + " receive " + std::to_string(index);
  if (!take_receive(endpoint, cqe)) return wrong(receive + ": completes twice, or out of order");
  if (cqe.status == WcStatus::kWrFlushErr && endpoint.qp->state() == QpState::kErr) {
    endpoint.flushes_receives = true;
    if (endpoint.plan->uses_srq) state_of(endpoint).srq_flushed.push_back(index);
    return;
  }
  // What came before the QP failed may be seen after its failure, on another CQ.
  if (endpoint.flushes_receives) return wrong(receive + ": not flushed");
  const Endpoint& peer = peer_of(endpoint);
  if (cqe.status == WcStatus::kLocLenErr && peer.plan->offends_peer(peer.ops_posted)) {
    endpoint.flushes_receives = true;
    return;
  }
  if (cqe.status != WcStatus::kSuccess)
    return wrong(receive + ": status " + std::to_string(static_cast<int>(cqe.status)));
  std::size_t message = 0;
  const auto op = std::find_if(peer.plan->ops.begin(), peer.plan->ops.end(), [&](const PlannedOp& planned) {
    return planned.takes_receive() && message++ == endpoint.received_by.size();
  });
  if (op == peer.plan->ops.end() || op >= peer.plan->ops.begin() + static_cast<std::ptrdiff_t>(peer.ops_posted))
    return wrong(receive + ": a message that was never sent");
  endpoint.received_by.push_back(index);
  const bool has_imm = op->kind == OpKind::kSendImm || op->kind == OpKind::kWriteImm;
  if (cqe.byte_len != op->length) wrong(receive + ": byte_len " + std::to_string(cqe.byte_len));
  if (cqe.opcode != (op->kind == OpKind::kWriteImm ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRecv))
    wrong(receive + ": wrong opcode");
  if (((cqe.flags & kWcWithImm) != 0) != has_imm || (has_imm && cqe.imm_or_rkey != op->imm))
    wrong(receive + ": wrong immediate data");
  const bool has_key = op->kind == OpKind::kSendInv;
  if (((cqe.flags & kWcWithInv) != 0) != has_key || (has_key && cqe.imm_or_rkey != endpoint.window_key))
    wrong(receive + ": wrong invalidated key");
  endpoint.window_is_gone |= has_key;
  const bool solicited = (op->flags & kSendSolicited) != 0;
  if (cqe.solicited != solicited) wrong(receive + ": wrong solicited event bit");
}

}  // namespace roci::simtest
