#include "stack/control/device.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "stack/base/assert.h"
#include "stack/qp/egress_class.h"
#include "stack/qp/qp_states.h"

namespace roci {

/// Holds the batons for the length of a control call, and delivers the events that the call made.
class Device::ControlCall {
 public:
  explicit ControlCall(Device& device) : device_(device) {
    for (const auto& worker : device.workers_) worker->baton().lock();
    ++device.workers_.front()->env().counters.control_calls;
  }
  ~ControlCall() {
    device_.free_addresses();
    for (const auto& worker : device_.workers_) {
      worker->deliver_events();
      worker->baton().unlock();
    }
  }
  ControlCall(const ControlCall&) = delete;
  ControlCall& operator=(const ControlCall&) = delete;

 private:
  Device& device_;
};

Device::Device(std::span<const WorkerSeat> seats, EventSink& events, Entropy& entropy, const DeviceConfig& config)
    : config_(config), entropy_(entropy) {
  ROCI_ASSERT(!seats.empty() && seats.size() <= kMaxWorkers);
  for (const WorkerSeat& seat : seats) {
    workers_.push_back(std::make_unique<Worker>(*seat.port, events, keys_, *seat.counters, workers()));
    configure(*workers_.back());
  }
}

Device::Device(Port& port, EventSink& events, Entropy& entropy, Counters& counters, const DeviceConfig& config)
    : Device(std::array{WorkerSeat{.port = &port, .counters = &counters}}, events, entropy, config) {}

void Device::configure(Worker& worker) {
  QpEnvironment& env = worker.env();
  env.window = config_.window;
  env.cc = config_.cc;
  const std::uint64_t line_rate_bps = worker.port().attributes().speed_bps;
  constexpr std::int64_t kPicosecondsPerSecond = 1'000'000'000'000;
  env.cc_path = {
      .line_rate_bps = line_rate_bps,
      .base_rtt = config_.base_rtt,
      .bdp_bytes = static_cast<std::uint32_t>(static_cast<double>(line_rate_bps) / 8 *
                                              static_cast<double>(config_.base_rtt.ps) / kPicosecondsPerSecond)};
  worker.configure_egress(config_.egress);
}

Device::~Device() { ROCI_ASSERT(qps() == 0); }

std::uint32_t Device::qps() const {
  std::uint32_t count = 0;
  for (const auto& worker : workers_) count += worker->qps().size();
  return count;
}

/// Where the next QP goes: of those with the fewest the first.
Worker& Device::least_loaded() {
  return **std::min_element(workers_.begin(), workers_.end(),
                            [](const auto& a, const auto& b) { return a->qps().size() < b->qps().size(); });
}

std::vector<IpAddress> Device::gids() const { return workers_.front()->port().attributes().addresses; }

PortAttributes Device::port_attributes() {
  ControlCall call(*this);
  return workers_.front()->port().attributes();
}

std::uint8_t Device::active_mtu() {
  ControlCall call(*this);
  return mtu_of_link();
}

/// IPv6, UDP, BTH, extension headers and ICRC need room, too.
std::uint8_t Device::mtu_of_link() const {
  constexpr std::uint32_t kHeaderRoomBytes = 80;
  const std::uint32_t link_mtu_bytes = workers_.front()->port().attributes().link_mtu_bytes;
  std::uint8_t code = config_.most_mtu;
  while (code > 1 && mtu_bytes(code) + kHeaderRoomBytes > link_mtu_bytes) --code;
  return code;
}

int Device::alloc_pd(Pd** pd) {
  ControlCall call(*this);
  if (pds_ >= config_.limits.max_pd) return ENOMEM;
  *pd = new Pd{.handle = ++pds_};
  return 0;
}

int Device::dealloc_pd(Pd* pd) {
  ControlCall call(*this);
  if (pd->users != 0) return EBUSY;
  --pds_;
  delete pd;
  return 0;
}

namespace {

bool access_ok(std::uint32_t access) {
  constexpr std::uint32_t kKnown = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic |
                                   kAccessMwBind | kAccessZeroBased;
  if ((access & ~kKnown) != 0) return false;
  const bool remote_changes = (access & (kAccessRemoteWrite | kAccessRemoteAtomic)) != 0;
  return !remote_changes || (access & kAccessLocalWrite) != 0;
}

bool range_ok(const void* addr, std::uint64_t length, std::uint64_t iova) {
  return reinterpret_cast<std::uintptr_t>(addr) + length >= reinterpret_cast<std::uintptr_t>(addr) &&
         iova + length >= iova;
}

}  // namespace

int Device::reg_mr(Pd* pd, void* addr, std::uint64_t length, std::uint64_t iova, std::uint32_t access, Mr** mr) {
  if (!access_ok(access) || !range_ok(addr, length, iova)) return EINVAL;
  ControlCall call(*this);
  if (mrs_ >= config_.limits.max_mr) return ENOMEM;
  auto* made = new Mr{{.pd = pd,
                       .base = static_cast<std::byte*>(addr),
                       .iova = (access & kAccessZeroBased) != 0 ? 0 : iova,
                       .length = length,
                       .access = access}};
  if (!keys_.insert(made, static_cast<std::uint32_t>(entropy_.next()))) {
    delete made;
    return ENOMEM;
  }
  ++pd->users;
  ++mrs_;
  *mr = made;
  return 0;
}

int Device::rereg_mr(Mr* mr, Pd* pd, const MemoryRange* range, const std::uint32_t* access) {
  if (access != nullptr && !access_ok(*access)) return EINVAL;
  if (range != nullptr && !range_ok(range->addr, range->length, range->iova)) return EINVAL;
  ControlCall call(*this);
  if (mr->windows != 0) return EBUSY;
  if (pd != nullptr) {
    --mr->pd->users;
    ++pd->users;
    mr->pd = pd;
  }
  if (range != nullptr) {
    mr->base = static_cast<std::byte*>(range->addr);
    mr->length = range->length;
    mr->iova = range->iova;
  }
  if (access != nullptr) mr->access = *access;
  return 0;
}

int Device::dereg_mr(Mr* mr) {
  ControlCall call(*this);
  if (mr->windows != 0) return EBUSY;
  keys_.erase(mr);
  --mr->pd->users;
  --mrs_;
  delete mr;
  return 0;
}

int Device::alloc_mw(Pd* pd, KeyKind kind, Mw** mw) {
  ControlCall call(*this);
  if (mws_ >= config_.limits.max_mw) return ENOMEM;
  auto* made = new Mw{{.pd = pd, .kind = kind}};
  if (!keys_.insert(made, static_cast<std::uint32_t>(entropy_.next()))) {
    delete made;
    return ENOMEM;
  }
  ++pd->users;
  ++mws_;
  *mw = made;
  return 0;
}

int Device::dealloc_mw(Mw* mw) {
  ControlCall call(*this);
  keys_.unbind(*mw);
  keys_.erase(mw);
  --mw->pd->users;
  --mws_;
  delete mw;
  return 0;
}

int Device::create_cq(std::uint32_t entries, void* user, Cq** cq) {
  if (entries == 0 || entries > config_.limits.max_cqe) return EINVAL;
  ControlCall call(*this);
  if (cqs_ >= config_.limits.max_cq) return ENOMEM;
  *cq = new Cq(entries, user);
  ++cqs_;
  return 0;
}

int Device::resize_cq(Cq* cq, std::uint32_t entries) {
  if (entries == 0 || entries > config_.limits.max_cqe) return EINVAL;
  ControlCall call(*this);
  return cq->resize(entries) ? 0 : EINVAL;
}

int Device::destroy_cq(Cq* cq) {
  ControlCall call(*this);
  if (cq->users != 0) return EBUSY;
  --cqs_;
  delete cq;
  return 0;
}

int Device::create_srq(Pd* pd, const SrqInit& init, Srq** srq) {
  const DeviceLimits& limits = config_.limits;
  if (init.max_wr == 0 || init.max_wr > limits.max_srq_wr || init.max_sge > limits.max_srq_sge) return EINVAL;
  ControlCall call(*this);
  if (srqs_ >= limits.max_srq) return ENOMEM;
  auto* made = new Srq(init.max_wr, init.max_sge);
  if (workers() > 1) made->queue.share();
  made->pd = pd;
  made->user_ = init.user;
  ++pd->users;
  ++srqs_;
  *srq = made;
  return 0;
}

int Device::modify_srq(Srq* srq, std::uint32_t limit) {
  ControlCall call(*this);
  if (limit > srq->queue.max_wr()) return EINVAL;
  srq->limit = limit;
  return 0;
}

std::uint32_t Device::query_srq_limit(Srq* srq) {
  ControlCall call(*this);
  return srq->limit;
}

int Device::destroy_srq(Srq* srq) {
  ControlCall call(*this);
  if (srq->users != 0) return EBUSY;
  --srq->pd->users;
  --srqs_;
  delete srq;
  return 0;
}

namespace {

bool capacity_ok(const QpCapacity& asked, const DeviceLimits& limits, bool has_srq) {
  if (asked.max_send_wr > limits.max_qp_wr || asked.max_send_sge > limits.max_sge) return false;
  if (asked.max_inline_data > limits.max_inline_data) return false;
  return has_srq || (asked.max_recv_wr <= limits.max_qp_wr && asked.max_recv_sge <= limits.max_sge);
}

}  // namespace

int Device::create_qp(Pd* pd, QpInit& init, Qp** qp) {
  if (init.type != QpType::kRc && init.type != QpType::kUc && init.type != QpType::kUd) return EOPNOTSUPP;
  if (!capacity_ok(init.capacity, config_.limits, init.srq != nullptr)) return EINVAL;
  if (init.send_cq == nullptr || init.recv_cq == nullptr) return EINVAL;
  ControlCall call(*this);
  if (qps() >= config_.limits.max_qp) return ENOMEM;
  Worker& worker = least_loaded();
  if (init.srq != nullptr) init.capacity.max_recv_wr = init.capacity.max_recv_sge = 0;
  const QpIdentity identity{.qpn = worker.qps().pick(entropy_.next()),
                            .type = init.type,
                            .pd = pd,
                            .send_cq = init.send_cq,
                            .recv_cq = init.recv_cq,
                            .srq = init.srq,
                            .signal_all = init.signal_all,
                            .user = init.user};
  for (Cq* cq : {init.send_cq, init.recv_cq}) cq->admit(worker.env().worker);
  worker.env().active_mtu = mtu_of_link();
  auto* made = new Qp(identity, init.capacity, worker.env());
  worker.qps().insert(identity.qpn, made);
  ++pd->users;
  ++init.send_cq->users;
  ++init.recv_cq->users;
  if (init.srq != nullptr) ++init.srq->users;
  *qp = made;
  return 0;
}

int Device::check_path(const AddressVector& av, const std::vector<IpAddress>& gids) const {
  if (!av.is_global || av.port_num != 1 || av.sgid_index >= gids.size()) return EINVAL;
  // Both ends of a path speak the same IP version.
  const IpAddress& sgid = gids[av.sgid_index];
  if (av.dgid.is_unspecified() || sgid.is_unspecified() || sgid.is_v4() != av.dgid.is_v4()) return EINVAL;
  return 0;
}

int Device::route_qp(Qp* qp, const QpAttr& attr, std::uint32_t mask) {
  if (qp->type() == QpType::kUd || (mask & (kQpAv | kQpDestQpn)) == 0) return 0;
  const AddressVector& av = (mask & kQpAv) != 0 ? attr.av : qp->attr().av;
  const Qpn dest_qpn = (mask & kQpDestQpn) != 0 ? attr.dest_qpn : qp->attr().dest_qpn;
  const std::vector<IpAddress> own = gids();
  if (const int error = check_path(av, own); error != 0) return error;
  Worker& worker = worker_with(*qp);
  Route* route = worker.port().acquire_route(av.dgid, dest_qpn);
  if (route == nullptr) return ENETUNREACH;
  worker.withdraw(*qp);
  if (qp->route() != nullptr) worker.port().release_route(qp->route());
  qp->set_route(route, own[av.sgid_index], av, dest_qpn);
  return 0;
}

int Device::modify_qp(Qp* qp, const QpAttr& attr, std::uint32_t mask) {
  ControlCall call(*this);
  if (const int error = check_modify(qp->type(), qp->state(), attr, mask); error != 0) return error;
  if ((mask & kQpPathMtu) != 0 && attr.path_mtu > mtu_of_link()) return EINVAL;
  if ((mask & kQpMaxQpRdAtomic) != 0 && attr.max_rd_atomic > config_.limits.max_qp_init_rd_atom) return EINVAL;
  if ((mask & kQpMaxDestRdAtomic) != 0 && attr.max_dest_rd_atomic > config_.limits.max_qp_rd_atom) return EINVAL;
  if (const int error = route_qp(qp, attr, mask); error != 0) return error;
  if ((mask & kQpStateAttr) != 0 && attr.state == QpState::kReset) {
    worker_with(*qp).forget(*qp);
    // What the QP was before is over: no completion of then is to be taken for one of now.
    qp->send_cq()->discard(qp->qpn());
    qp->recv_cq()->discard(qp->qpn());
  }
  qp->apply(attr, mask);
  worker_with(*qp).activate(*qp);
  return 0;
}

void Device::query_qp(Qp* qp, QpAttr* attr, QpCapacity* capacity) {
  ControlCall call(*this);
  *attr = qp->query();
  *capacity = qp->capacity();
}

void Device::silence_qp(Qp* qp) {
  ControlCall call(*this);
  worker_with(*qp).forget(*qp);
  qp->apply({.state = QpState::kReset}, kQpStateAttr);
}

int Device::destroy_qp(Qp* qp) {
  ControlCall call(*this);
  Worker& worker = worker_with(*qp);
  worker.forget(*qp);
  worker.qps().erase(qp->qpn());
  keys_.unbind_all(qp->qpn());
  if (qp->route() != nullptr) worker.port().release_route(qp->route());
  qp->forget_sends();
  for (const IpAddress& group : groups_.groups_of(*qp)) leave_group(*qp, group);
  --qp->pd()->users;
  qp->send_cq()->forget(qp->sq());
  --qp->send_cq()->users;
  --qp->recv_cq()->users;
  if (qp->srq() != nullptr) --qp->srq()->users;
  worker.deliver_events();
  delete qp;
  return 0;
}

int Device::attach_mcast(Qp* qp, const IpAddress& group) {
  if (qp->type() != QpType::kUd || !group.is_multicast()) return EINVAL;
  ControlCall call(*this);
  if (const int error = groups_.attach(group, *qp); error != 0) return error;
  Worker& worker = worker_with(*qp);
  const bool is_new = worker.groups().members(group).empty();
  worker.groups().attach(group, *qp);
  if (is_new) worker.port().join_group(group);
  return 0;
}

int Device::detach_mcast(Qp* qp, const IpAddress& group) {
  if (qp->type() != QpType::kUd || !group.is_multicast()) return EINVAL;
  ControlCall call(*this);
  return leave_group(*qp, group);
}

int Device::leave_group(Qp& qp, const IpAddress& group) {
  if (const int error = groups_.detach(group, qp); error != 0) return error;
  Worker& worker = worker_with(qp);
  worker.groups().detach(group, qp);
  if (worker.groups().members(group).empty()) worker.port().leave_group(group);
  return 0;
}

int Device::create_ah(Pd* pd, const AddressVector& av, AddressHandle** ah) {
  ControlCall call(*this);
  const std::vector<IpAddress> own = gids();
  if (const int error = check_path(av, own); error != 0) return error;
  if (ahs_ >= config_.limits.max_ah) return ENOMEM;
  std::vector<RouteSource*> ports;
  for (const auto& worker : workers_) ports.push_back(&worker->port());
  auto* made = new AddressHandle(pd, av, ports);
  const AddressVector used = marked(av, config_.egress);
  // Each datagram has a source port and a destination QP of its own.
  made->path.set(own[av.sgid_index], used, 0, Qpn{}, false);
  made->priority = priority_of(used, config_.egress);
  // What it takes to find the way is done here, not in a turn.
  for (std::uint32_t worker = 0; worker < workers(); ++worker) static_cast<void>(made->route_to(Qpn{}, worker));
  ++pd->users;
  ++ahs_;
  *ah = made;
  return 0;
}

int Device::destroy_ah(AddressHandle* ah) {
  ControlCall call(*this);
  --ah->pd->users;
  --ahs_;
  destroyed_ahs_.emplace_back(ah);
  return 0;
}

void Device::free_addresses() {
  std::erase_if(destroyed_ahs_, [](const auto& ah) { return ah->posted.load(std::memory_order_acquire) == 0; });
}

namespace {

/// RTS, SQD, SQE or ERR.
bool may_post(const Qp& qp) { return qp.state() >= QpState::kRts; }

int check_operation(const Qp& qp, const SendRequest& request) {
  if (!may_post(qp)) return EINVAL;
  switch (request.opcode) {
    case WrOpcode::kRdmaRead:
    case WrOpcode::kAtomicCmpSwp:
    case WrOpcode::kAtomicFetchAdd:
      if ((request.flags & kSendInline) != 0) return EINVAL;
      break;
    case WrOpcode::kLocalInv:
    case WrOpcode::kBindMw:
      if ((request.flags & (kSendInline | kSendSolicited)) != 0) return EINVAL;
      break;
    default:
      break;
  }
  return 0;
}

/// UC and UD.
int check_unreliable(const Qp& qp, const SendRequest& request) {
  if (!may_post(qp)) return EINVAL;
  if (qp.type() == QpType::kUc) return request.opcode <= WrOpcode::kSendWithImm ? 0 : EINVAL;
  const bool is_send = request.opcode == WrOpcode::kSend || request.opcode == WrOpcode::kSendWithImm;
  const bool has_address = request.ah != nullptr && request.ah->pd == qp.pd();
  return is_send && has_address && request.remote_qpn.value <= Qpn::kMask ? 0 : EINVAL;
}

/// Before the WQEs are posted: the worker may be done with them at once.
void hold_addresses(std::span<const SendRequest> batch) {
  for (const SendRequest& request : batch) request.ah->posted.fetch_add(1, std::memory_order_relaxed);
}

void release_addresses(std::span<const SendRequest> batch) {
  for (const SendRequest& request : batch) request.ah->posted.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

int Device::post_send(Qp* qp, const SendRequest& request) {
  if (qp->type() != QpType::kRc) [[unlikely]]
    return post_unreliable(qp, {&request, 1});
  const int error = check_operation(*qp, request);
  return error != 0 ? error : qp->sq().post(request);
}

int Device::post_send_all(Qp* qp, std::span<const SendRequest> batch) {
  if (qp->type() != QpType::kRc) [[unlikely]]
    return post_unreliable(qp, batch);
  for (const SendRequest& request : batch)
    if (const int error = check_operation(*qp, request); error != 0) return error;
  return qp->sq().post_all(batch);
}

int Device::post_unreliable(Qp* qp, std::span<const SendRequest> batch) {
  for (const SendRequest& request : batch)
    if (const int error = check_unreliable(*qp, request); error != 0) return error;
  if (qp->type() == QpType::kUc) return qp->sq().post_all(batch);
  hold_addresses(batch);
  const int error = qp->sq().post_all(batch);
  if (error != 0) release_addresses(batch);
  return error;
}

int Device::post_recv(Qp* qp, const RecvRequest& request) {
  const QpState state = qp->state();
  if (state == QpState::kReset || qp->srq() != nullptr) return EINVAL;
  const int error = qp->receive_queue().post(request);
  // A QP in error flushes what is posted to it; somebody has to look.
  if (error == 0 && qp->state() == QpState::kErr) ring(qp);
  return error;
}

int Device::post_srq_recv(Srq* srq, const RecvRequest& request) { return srq->queue.post(request); }

}  // namespace roci
