// rsockets: data, credits and mappings.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "verbs-shim/rdmacm/ids.h"
#include "verbs-shim/rdmacm/rsocket.h"

namespace roci::shim {
namespace {

/// Pieces of a long message grow from the first to the second, so that the peer gets something soon.
constexpr std::size_t kFirstPiece = 2048;
constexpr std::size_t kLargestPiece = 65536;
/// With less room than this a send waits.
constexpr std::size_t kLeastRoom = 64;

std::size_t total_of(std::span<const iovec> data) {
  std::size_t total = 0;
  for (const iovec& part : data) total += part.iov_len;
  return total;
}

}  // namespace

bool Rsocket::can_send() const {
  return sends_free_ > 0 && stage_free_ >= kLeastRoom && messages_sent_ != messages_allowed_ && target().length != 0;
}

/// The peer writes an entry at any time, its length last.
RemoteBuffer Rsocket::target() const {
  RemoteBuffer& entry = targets()[target_];
  RemoteBuffer target;
  target.length = std::atomic_ref(entry.length).load(std::memory_order_acquire);
  target.addr = entry.addr;
  target.key = entry.key;
  return target;
}

bool Rsocket::post(const RsocketMessage& message, std::span<ibv_sge> data, const RemoteBuffer& to, unsigned flags,
                   bool with_immediate) {
  ibv_send_wr wr{};
  wr.wr_id = message.encode();
  wr.sg_list = data.data();
  wr.num_sge = static_cast<int>(data.size());
  wr.opcode = with_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  wr.send_flags = flags;
  wr.imm_data = __builtin_bswap32(message.encode());
  wr.wr.rdma.remote_addr = to.addr;
  wr.wr.rdma.rkey = to.key;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(id_->qp, &wr, &bad);
  if (error != 0) fail_with(error);
  return error == 0;
}

bool Rsocket::send_piece(std::span<const std::byte> data, const RemoteBuffer& to, RsocketOp op) {
  const std::size_t bytes = data.size();
  std::array<ibv_sge, 2> sges{};
  std::size_t count = 1;
  unsigned flags = 0;
  const auto address = [](const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); };
  if (bytes <= settings_.inline_bytes) {
    sges[0] = {address(data.data()), static_cast<std::uint32_t>(bytes), 0};
    flags = IBV_SEND_INLINE;
  } else {
    // The staging buffer is a ring: what does not fit at its end goes on at its start.
    const std::size_t at_end = std::min(bytes, staged_.memory.size() - stage_offset_);
    std::memcpy(staged_.memory.data() + stage_offset_, data.data(), at_end);
    sges[0] = {address(staged_.memory.data() + stage_offset_), static_cast<std::uint32_t>(at_end), staged_.mr->lkey};
    if (at_end < bytes) {
      std::memcpy(staged_.memory.data(), data.data() + at_end, bytes - at_end);
      sges[1] = {address(staged_.memory.data()), static_cast<std::uint32_t>(bytes - at_end), staged_.mr->lkey};
      count = 2;
    }
    stage_offset_ = (stage_offset_ + bytes) % staged_.memory.size();
  }
  --sends_free_;
  stage_free_ -= bytes;
  const RsocketMessage message{op, static_cast<std::uint32_t>(bytes)};
  return post(message, {sges.data(), count}, to, flags, op == RsocketOp::kData);
}

void Rsocket::advance_target(std::size_t bytes) {
  RemoteBuffer& target = targets()[target_];
  target.addr += bytes;
  target.length -= static_cast<std::uint32_t>(bytes);
  if (target.length == 0) target_ = (target_ + 1) % kTargetBuffers;
}

ssize_t Rsocket::send(std::span<const iovec> data, int flags) {
  Lock lock(mutex_);
  if (state_ == State::kConnecting && continue_connecting() != 0) return fail(errno == EINPROGRESS ? EAGAIN : errno);
  if (state_ != State::kConnected && state_ != State::kClosed) return fail(ENOTCONN);
  if (!announce_mappings(lock, flags)) return -1;
  const std::size_t total = total_of(data);
  std::size_t sent = 0;
  std::size_t piece = kFirstPiece;
  for (const iovec& part : data) {
    std::span left = bytes_of(part.iov_base, part.iov_len);
    while (!left.empty()) {
      if (!can_send()) {
        poll_cq();
        send_credits_if_due();
      }
      if (!writable_) break;
      if (!can_send()) {
        if (!wait(lock, flags)) return sent != 0 ? static_cast<ssize_t>(sent) : -1;
        continue;
      }
      const RemoteBuffer to = target();
      const std::size_t bytes = std::min({left.size(), piece, stage_free_, std::size_t{to.length}});
      // Before the post: as soon as the peer has a buffer's last piece it may announce the next in the same entry.
      advance_target(bytes);
      if (!send_piece(left.first(bytes), to, RsocketOp::kData)) break;
      ++messages_sent_;
      sent += bytes;
      left = left.subspan(bytes);
      if (piece < kLargestPiece) piece *= 2;
    }
    if (!left.empty()) break;
  }
  if (sent == 0 && total != 0) return fail(error_ != 0 ? take_error() : EPIPE);
  return static_cast<ssize_t>(sent);
}

ssize_t Rsocket::receive(std::span<const iovec> data, int flags) {
  Lock lock(mutex_);
  if (state_ == State::kConnecting && continue_connecting() != 0) return fail(errno == EINPROGRESS ? EAGAIN : errno);
  if (state_ != State::kConnected && state_ != State::kClosed) return fail(ENOTCONN);
  const std::size_t total = total_of(data);
  std::size_t done = 0;
  std::size_t part = 0;
  std::size_t part_offset = 0;
  std::size_t peek_offset = read_offset_;
  std::size_t peek_message = 0;
  std::uint32_t peek_done = 0;
  const bool peeks = (flags & MSG_PEEK) != 0;
  while (done < total) {
    if (peeks ? peek_message >= messages_.size() : !has_data()) {
      if (done != 0 && (flags & MSG_WAITALL) == 0) break;
      poll_cq();
      send_credits_if_due();
      if (peeks ? peek_message < messages_.size() : has_data()) continue;
      if (!readable_ || (peeks && done != 0)) break;
      if (!wait(lock, flags)) {
        if (done != 0) break;
        return -1;
      }
      continue;
    }
    while (data[part].iov_len == part_offset) ++part, part_offset = 0;
    const std::uint32_t in_message = messages_[peeks ? peek_message : 0] - (peeks ? peek_done : 0);
    std::size_t& offset = peeks ? peek_offset : read_offset_;
    const std::size_t bytes =
        std::min({data[part].iov_len - part_offset, std::size_t{in_message}, received_.memory.size() - offset});
    std::memcpy(static_cast<std::byte*>(data[part].iov_base) + part_offset, received_.memory.data() + offset, bytes);
    offset = (offset + bytes) % received_.memory.size();
    part_offset += bytes;
    done += bytes;
    if (peeks) {
      peek_done += static_cast<std::uint32_t>(bytes);
      if (peek_done == messages_[peek_message]) ++peek_message, peek_done = 0;
      continue;
    }
    free_bytes_ += bytes;
    messages_.front() -= static_cast<std::uint32_t>(bytes);
    if (messages_.front() == 0) {
      messages_.pop_front();
      ++messages_read_;
    }
  }
  if (done == 0 && error_ != 0) return fail(take_error());
  send_credits_if_due();
  return static_cast<ssize_t>(done);
}

/// Tells the peer how many messages it may send, and which half of the buffer is free again.
bool Rsocket::send_credits() {
  ++controls_sent_;
  const auto last = static_cast<std::uint16_t>(messages_read_ + settings_.receive_messages);
  credits_due_at_ = static_cast<std::uint16_t>(messages_read_ + settings_.receive_messages / 2);
  const RsocketMessage message{RsocketOp::kCredits, last};
  const std::size_t half = settings_.receive_bytes / 2;
  if (free_bytes_ < half) return post(message, {}, {}, 0, true);
  RemoteBuffer announced{reinterpret_cast<std::uintptr_t>(received_.memory.data() + free_offset_), received_.mr->rkey,
                         static_cast<std::uint32_t>(half)};
  free_bytes_ -= half;
  free_offset_ = (free_offset_ + half) % (2 * half);
  const RemoteBuffer to{remote_table_.addr + remote_slot_ * sizeof announced, remote_table_.key, sizeof announced};
  remote_slot_ = (remote_slot_ + 1) % remote_table_.length;
  std::array sge{ibv_sge{reinterpret_cast<std::uintptr_t>(&announced), sizeof announced, 0}};
  return post(message, sge, to, IBV_SEND_INLINE, true);
}

void Rsocket::send_credits_if_due() {
  if (state_ != State::kConnected || !can_control()) return;
  const bool messages_due = static_cast<std::int16_t>(messages_read_ - credits_due_at_) >= 0;
  if (free_bytes_ >= settings_.receive_bytes / 2 || messages_due) send_credits();
}

off_t Rsocket::map(void* memory, std::size_t bytes, int protection, off_t offset) {
  const Lock lock(mutex_);
  if (id_->pd == nullptr || (protection & ~(PROT_WRITE | PROT_READ)) != 0) return fail(EINVAL);
  std::uint32_t slot = 0;
  while (std::any_of(mappings_.begin(), mappings_.end(), [&](const Mapping& other) { return other.slot == slot; }))
    ++slot;
  if (state_ == State::kConnected && slot >= remote_mappings_.length) return fail(ENOBUFS);
  const int access = IBV_ACCESS_LOCAL_WRITE | ((protection & PROT_WRITE) != 0 ? IBV_ACCESS_REMOTE_WRITE : 0) |
                     ((protection & PROT_READ) != 0 ? IBV_ACCESS_REMOTE_READ : 0);
  ibv_mr* mr = ibv_reg_mr(id_->pd, memory, bytes, access);
  if (mr == nullptr) return -1;
  if (offset < 0) offset = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(memory));
  mappings_.push_back({mr, offset, slot, false});
  return offset;
}

int Rsocket::unmap(void* memory, std::size_t bytes) {
  const Lock lock(mutex_);
  const auto found = std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& mapping) {
    return mapping.mr->addr == memory && mapping.mr->length == bytes;
  });
  if (found == mappings_.end()) return fail(EINVAL);
  ibv_dereg_mr(found->mr);
  mappings_.erase(found);
  return 0;
}

/// The peer hears of new mappings before any data that follows.
bool Rsocket::announce_mappings(Lock& lock, int flags) {
  for (Mapping& mapping : mappings_) {
    if (mapping.announced) continue;
    while (!can_send()) {
      if (!writable_) return fail(EPIPE) == 0;
      if (!wait(lock, flags)) return false;
    }
    RemoteMapping entry{static_cast<std::uint64_t>(mapping.offset),
                        {reinterpret_cast<std::uintptr_t>(mapping.mr->addr), mapping.mr->rkey,
                         static_cast<std::uint32_t>(mapping.mr->length)}};
    const RemoteBuffer to{remote_mappings_.addr + mapping.slot * sizeof entry, remote_mappings_.key, sizeof entry};
    std::array sge{ibv_sge{reinterpret_cast<std::uintptr_t>(&entry), sizeof entry, 0}};
    ++messages_sent_;
    --sends_free_;
    stage_free_ -= sizeof entry;
    if (!post({RsocketOp::kMapping, mapping.slot}, sge, to, IBV_SEND_INLINE, true)) return false;
    mapping.announced = true;
  }
  return true;
}

RemoteMapping* Rsocket::find_mapping(off_t offset) {
  const auto at = static_cast<std::uint64_t>(offset);
  RemoteMapping* begin = offered_mappings();
  RemoteMapping* end = begin + settings_.mapping_slots;
  RemoteMapping* found = std::find_if(begin, end, [&](const RemoteMapping& mapping) {
    return at >= mapping.offset && at - mapping.offset < mapping.buffer.length;
  });
  return found == end ? nullptr : found;
}

std::size_t Rsocket::write_mapped(const void* data, std::size_t bytes, off_t offset) {
  Lock lock(mutex_);
  const auto failed = [](int error) { return static_cast<std::size_t>(fail(error)); };
  if (state_ != State::kConnected) return failed(ENOTCONN);
  if (!announce_mappings(lock, 0)) return failed(errno);
  std::span left = bytes_of(data, bytes);
  std::size_t piece = kFirstPiece;
  while (!left.empty()) {
    const RemoteMapping* mapping = find_mapping(offset);
    poll_cq();
    if (mapping == nullptr) return left.size() == bytes ? failed(EINVAL) : bytes - left.size();
    if (!writable_) return failed(EPIPE);
    if (sends_free_ == 0 || stage_free_ < kLeastRoom) {
      if (!wait(lock, 0)) return left.size() == bytes ? failed(errno) : bytes - left.size();
      continue;
    }
    const auto into = static_cast<std::uint64_t>(offset) - mapping->offset;
    const RemoteBuffer to{mapping->buffer.addr + into, mapping->buffer.key,
                          static_cast<std::uint32_t>(mapping->buffer.length - into)};
    const std::size_t sent = std::min({left.size(), piece, stage_free_, std::size_t{to.length}});
    if (!send_piece(left.first(sent), to, RsocketOp::kWrite)) return failed(EIO);
    left = left.subspan(sent);
    offset += static_cast<off_t>(sent);
    if (piece < kLargestPiece) piece *= 2;
  }
  return bytes;
}

short Rsocket::ready(short events) {
  const Lock lock(mutex_);
  short result = 0;
  switch (state_) {
    case State::kListening: {
      pollfd request{fd(), POLLIN, 0};
      if (::poll(&request, 1, 0) == 1) result |= POLLIN;
      break;
    }
    case State::kConnected:
      if (has_data() || !readable_) result |= POLLIN;
      if (can_send() || !writable_) result |= POLLOUT;
      break;
    case State::kClosed:
      // What has come before the end is read first.
      result = POLLIN;
      if (!has_data()) result |= static_cast<short>(POLLOUT | (error_ != 0 ? POLLERR : POLLHUP));
      break;
    default:
      break;
  }
  return static_cast<short>(result & (events | POLLERR | POLLHUP));
}

bool Rsocket::watch(short events, std::vector<pollfd>* out) {
  {
    const Lock lock(mutex_);
    out->push_back({fd(), POLLIN, 0});
    if (state_ == State::kConnected) {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      while (ibv_get_cq_event(id_->recv_cq_channel, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
      ibv_req_notify_cq(id_->recv_cq, 0);
      out->push_back({id_->recv_cq_channel->fd, POLLIN, 0});
    }
  }
  if (state_ == State::kConnected) progress();
  return ready(events) == 0;
}

}  // namespace roci::shim
