// rsockets: made, connected, ended; what comes in, and waiting for it.
#include "verbs-shim/rdmacm/rsocket.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs-shim/rdmacm/ids.h"

namespace roci::shim {
namespace {

constexpr std::uint64_t kReceiveWr = std::uint64_t{1} << 63;
constexpr std::uint32_t kControlMessages = 4;  ///< under way at a time
constexpr std::uint8_t kMostRetries = 7;
constexpr int kResolveMilliseconds = 2000;

bool set_fd_nonblocking(int fd, bool nonblocking) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0;
}

rdma_conn_param connection_parameters(const std::array<std::byte, RsocketHello::kSize>& hello) {
  rdma_conn_param param{};
  param.private_data = hello.data();
  param.private_data_len = hello.size();
  param.flow_control = 1;
  param.retry_count = kMostRetries;
  param.rnr_retry_count = kMostRetries;
  return param;
}

}  // namespace

Rsocket::~Rsocket() {
  for (const Mapping& mapping : mappings_) ibv_dereg_mr(mapping.mr);
  rdma_destroy_qp(id_);
  for (Region* region : {&tables_, &received_, &staged_})
    if (region->mr != nullptr) ibv_dereg_mr(region->mr);
  rdma_destroy_id(id_);
}

int Rsocket::take_error() { return std::exchange(error_, 0); }

void Rsocket::fail_with(int error) {
  error_ = error;
  state_ = State::kClosed;
  readable_ = writable_ = false;
}

int Rsocket::bind(const sockaddr* address) {
  if (rdma_bind_addr(id_, const_cast<sockaddr*>(address)) != 0) return -1;
  state_ = State::kBound;
  return 0;
}

int Rsocket::listen(int backlog) {
  if (state_ == State::kListening) return 0;
  if (rdma_listen(id_, backlog) != 0) return -1;
  state_ = State::kListening;
  return set_fd_nonblocking(fd(), nonblocking_) ? 0 : -1;
}

int Rsocket::set_nonblocking(bool nonblocking) {
  nonblocking_ = nonblocking;
  // Once connected, the descriptors are this library's own to wait on.
  if (state_ == State::kConnected || state_ == State::kClosed) return 0;
  return set_fd_nonblocking(fd(), nonblocking) ? 0 : -1;
}

bool Rsocket::make_region(Region* region, std::size_t bytes, int access) {
  region->memory.resize(bytes);
  region->mr = ibv_reg_mr(id_->pd, region->memory.data(), bytes, access);
  return region->mr != nullptr;
}

RemoteBuffer* Rsocket::targets() const {
  return reinterpret_cast<RemoteBuffer*>(const_cast<std::byte*>(tables_.memory.data()));
}

RemoteMapping* Rsocket::offered_mappings() const {
  return reinterpret_cast<RemoteMapping*>(targets() + kTargetBuffers);
}

bool Rsocket::make_endpoint() {
  constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
  constexpr int kRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  const std::size_t table_bytes =
      kTargetBuffers * sizeof(RemoteBuffer) + settings_.mapping_slots * sizeof(RemoteMapping);
  if (!make_region(&staged_, settings_.send_bytes, kLocal) || !make_region(&tables_, table_bytes, kRemote) ||
      !make_region(&received_, settings_.receive_bytes, kRemote))
    return false;
  id_->recv_cq_channel = ibv_create_comp_channel(id_->verbs);
  if (id_->recv_cq_channel == nullptr || !set_fd_nonblocking(id_->recv_cq_channel->fd, true)) return false;
  const auto entries = static_cast<int>(settings_.send_messages + settings_.receive_messages);
  id_->recv_cq = ibv_create_cq(id_->verbs, entries, id_, id_->recv_cq_channel, 0);
  if (id_->recv_cq == nullptr || ibv_req_notify_cq(id_->recv_cq, 0) != 0) return false;
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = id_->recv_cq;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  attr.cap = {settings_.send_messages, settings_.receive_messages, 2, 1, settings_.inline_bytes};
  if (rdma_create_qp(id_, nullptr, &attr) != 0) return false;
  settings_.inline_bytes = attr.cap.max_inline_data;
  stage_free_ = settings_.send_bytes;
  free_offset_ = free_bytes_ = settings_.receive_bytes / 2;
  credits_due_at_ = static_cast<std::uint16_t>(settings_.receive_messages / 2);
  controls_allowed_ = kControlMessages;
  sends_free_ = settings_.send_messages - kControlMessages;
  for (std::uint32_t i = 0; i < settings_.receive_messages; ++i)
    if (!post_receive()) return false;
  return true;
}

bool Rsocket::post_receive() {
  // Data is written elsewhere: of a message only the immediate data comes here.
  ibv_recv_wr wr{};
  wr.wr_id = kReceiveWr;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(id_->qp, &wr, &bad) == 0;
}

RsocketHello Rsocket::hello() const {
  const auto at = [](const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); };
  return {.credits = static_cast<std::uint16_t>(settings_.receive_messages),
          .mapping_slots = encode_slots(settings_.mapping_slots),
          .table = {at(tables_.memory.data()), tables_.mr->rkey, kTargetBuffers},
          .data = {at(received_.memory.data()), received_.mr->rkey, settings_.receive_bytes / 2}};
}

void Rsocket::take_hello(const rdma_cm_event& event) {
  const rdma_conn_param& conn = event.param.conn;
  const auto* data = static_cast<const std::byte*>(conn.private_data);
  if (data == nullptr || conn.private_data_len < RsocketHello::kSize) return fail_with(EPROTO);
  const RsocketHello peer = RsocketHello::read(data);
  if (peer.version != RsocketHello::kVersion || (peer.flags & RsocketHello::kFlagBigEndian) != 0 ||
      peer.table.length == 0)
    return fail_with(EPROTO);
  remote_table_ = peer.table;
  remote_slot_ = peer.table.length > 1 ? 1 : 0;
  if ((peer.flags & RsocketHello::kFlagMappings) != 0)
    remote_mappings_ = {peer.table.addr + sizeof(RemoteBuffer) * peer.table.length, peer.table.key,
                        decode_slots(peer.mapping_slots)};
  targets()[0] = peer.data;
  messages_allowed_ = peer.credits;
  readable_ = writable_ = true;
  state_ = State::kConnected;
  // From now on descriptors are only looked at, never waited for in a read.
  set_fd_nonblocking(fd(), true);
  send_credits_if_due();
}

int Rsocket::connect(const sockaddr* address) {
  const Lock lock(mutex_);
  if (state_ == State::kConnecting) return continue_connecting();
  if (state_ != State::kNew && state_ != State::kBound) return fail(EISCONN);
  // Only the connection itself is waited for later.
  set_fd_nonblocking(fd(), false);
  const bool is_resolved = rdma_resolve_addr(id_, nullptr, const_cast<sockaddr*>(address), kResolveMilliseconds) == 0 &&
                           rdma_resolve_route(id_, kResolveMilliseconds) == 0;
  const int resolve_error = errno;
  set_fd_nonblocking(fd(), nonblocking_);
  if (!is_resolved) return fail(resolve_error);
  if (!make_endpoint()) return -1;
  std::array<std::byte, RsocketHello::kSize> data;
  hello().write(data.data());
  rdma_conn_param param = connection_parameters(data);
  state_ = State::kConnecting;
  if (rdma_connect(id_, &param) == 0) {
    take_hello(*id_->event);
    return state_ == State::kConnected ? 0 : fail(take_error());
  }
  if (errno == EAGAIN) return fail(EINPROGRESS);
  const int error = errno;
  fail_with(error);
  return fail(error);
}

/// Of a non-blocking socket: looks whether the answer has come.
int Rsocket::continue_connecting() {
  if (complete(*from(id_)) == 0) {
    take_hello(*id_->event);
    return state_ == State::kConnected ? 0 : fail(error_);
  }
  if (errno == EAGAIN) return fail(EINPROGRESS);
  fail_with(errno);
  return -1;
}

std::unique_ptr<Rsocket> Rsocket::accept() {
  if (state_ != State::kListening) {
    errno = EINVAL;
    return nullptr;
  }
  rdma_cm_id* id = nullptr;
  if (rdma_get_request(id_, &id) != 0) return nullptr;
  auto made = std::make_unique<Rsocket>(id);
  made->settings_ = settings_;
  if (!made->make_endpoint()) {
    const int error = errno;
    rdma_reject(id, nullptr, 0);
    errno = error;
    return nullptr;
  }
  std::array<std::byte, RsocketHello::kSize> data;
  made->hello().write(data.data());
  rdma_conn_param param = connection_parameters(data);
  // The hello of the request goes with its event, which accepting acknowledges.
  const rdma_cm_event request = *id->event;
  std::array<std::byte, RsocketHello::kSize> theirs{};
  if (request.param.conn.private_data_len >= theirs.size())
    std::memcpy(theirs.data(), request.param.conn.private_data, theirs.size());
  made->state_ = State::kAccepting;
  if (rdma_accept(id, &param) != 0) return nullptr;
  rdma_cm_event copy = request;
  copy.param.conn.private_data = theirs.data();
  made->take_hello(copy);
  if (made->state_ != State::kConnected) {
    errno = made->take_error();
    return nullptr;
  }
  return made;
}

void Rsocket::poll_cq() {
  if (id_->recv_cq == nullptr) return;
  std::array<ibv_wc, 32> completions;
  int count = 0;
  while ((count = ibv_poll_cq(id_->recv_cq, completions.size(), completions.data())) > 0) {
    for (int i = 0; i < count; ++i) {
      const ibv_wc& wc = completions[static_cast<std::size_t>(i)];
      const bool is_receive = (wc.wr_id & kReceiveWr) != 0;
      ++completions_;
      if (wc.status != IBV_WC_SUCCESS) {
        if (!is_receive && state_ == State::kConnected) fail_with(EIO);
        continue;
      }
      if (!is_receive) {
        on_sent(RsocketMessage::decode(static_cast<std::uint32_t>(wc.wr_id)));
        continue;
      }
      if (state_ == State::kConnected && !post_receive()) fail_with(errno);
      if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) on_message(RsocketMessage::decode(__builtin_bswap32(wc.imm_data)));
    }
  }
}

void Rsocket::on_message(const RsocketMessage& message) {
  switch (message.op) {
    case RsocketOp::kData:
      messages_.push_back(message.number);
      break;
    case RsocketOp::kCredits:
      messages_allowed_ = static_cast<std::uint16_t>(message.number);
      break;
    case RsocketOp::kControl: {
      const auto control = static_cast<RsocketControl>(message.number);
      if (control == RsocketControl::kShutdown) readable_ = false;
      if (control == RsocketControl::kDisconnect || (control == RsocketControl::kShutdown && !writable_)) {
        readable_ = writable_ = false;
        state_ = State::kClosed;
      }
      break;
    }
    default:
      break;  // a mapping has been written: it is there to be found
  }
}

void Rsocket::on_sent(const RsocketMessage& message) {
  switch (message.op) {
    case RsocketOp::kCredits:
    case RsocketOp::kControl:
      ++controls_allowed_;
      break;
    case RsocketOp::kMapping:
      ++sends_free_;
      stage_free_ += sizeof(RemoteMapping);
      break;
    default:
      ++sends_free_;
      stage_free_ += message.number;
  }
}

/// The connection manager hears of a peer that is gone without a word.
void Rsocket::take_cm_events() {
  if (state_ != State::kConnected) return;
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(id_->channel, &event) == 0) {
    const bool over = event->event == RDMA_CM_EVENT_DISCONNECTED || event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
    rdma_ack_cm_event(event);
    if (!over) continue;
    poll_cq();
    if (state_ != State::kConnected) continue;
    state_ = State::kClosed;
    readable_ = writable_ = false;
  }
}

void Rsocket::progress() {
  const Lock lock(mutex_);
  if (state_ == State::kConnecting) continue_connecting();
  poll_cq();
  send_credits_if_due();
  take_cm_events();
}

bool Rsocket::wait(Lock& lock, int flags) {
  if (nonblocking_ || (flags & MSG_DONTWAIT) != 0) {
    errno = EAGAIN;
    return false;
  }
  if (is_waiting_) {
    happened_.wait(lock);
    return true;
  }
  // An event that is there already is taken before asking for the next.
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(id_->recv_cq_channel, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
  ibv_req_notify_cq(id_->recv_cq, 0);
  const std::uint64_t before = completions_;
  const State state_before = state_;
  poll_cq();
  send_credits_if_due();
  if (completions_ != before || state_ != state_before) return true;
  is_waiting_ = true;
  std::array<pollfd, 2> fds{pollfd{id_->recv_cq_channel->fd, POLLIN, 0}, pollfd{fd(), POLLIN, 0}};
  lock.unlock();
  const int woken = poll(fds.data(), fds.size(), -1);
  const int error = errno;
  lock.lock();
  is_waiting_ = false;
  poll_cq();
  send_credits_if_due();
  take_cm_events();
  happened_.notify_all();
  errno = error;
  return woken >= 0;
}

int Rsocket::shutdown(int how) {
  Lock lock(mutex_);
  // Of a non-blocking socket too: what was sent is not to be lost.
  const bool nonblocking = std::exchange(nonblocking_, false);
  const int result = end_sending(how, lock);
  nonblocking_ = nonblocking;
  return result;
}

int Rsocket::end_sending(int how, Lock& lock) {
  if (state_ != State::kConnected) return state_ == State::kClosed ? 0 : fail(ENOTCONN);
  RsocketControl control = RsocketControl::kDisconnect;
  if (how != SHUT_WR) readable_ = false;
  if (how != SHUT_RD) writable_ = false;
  if (how == SHUT_RD && writable_) return 0;
  if (how == SHUT_WR && readable_) control = RsocketControl::kShutdown;
  while (!can_control() && state_ == State::kConnected)
    if (!wait(lock, 0)) break;
  if (state_ != State::kConnected) return 0;
  ++controls_sent_;
  post({RsocketOp::kControl, static_cast<std::uint32_t>(control)}, {}, {}, 0, true);
  // What was sent is with the peer before the connection may end.
  while (state_ == State::kConnected && (sends_free_ != settings_.send_messages - kControlMessages ||
                                         controls_allowed_ - controls_sent_ != kControlMessages))
    if (!wait(lock, 0)) break;
  if (control == RsocketControl::kDisconnect) state_ = State::kClosed;
  return 0;
}

void Rsocket::close() {
  if (state_ == State::kConnected) shutdown(SHUT_RDWR);
  if (id_->qp != nullptr) rdma_disconnect(id_);
}

}  // namespace roci::shim
