#include "stack/queues/send_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace roci {
namespace {

/// Longest message (IBTA 9.4.1): 2^31 bytes.
constexpr std::uint64_t kMaxMessageBytes = 1ull << 31;
/// IBTA 9.4.5.
constexpr std::uint64_t kAtomicBytes = 8;

}  // namespace

SendQueue::SendQueue(std::uint32_t max_wr, std::uint32_t max_sge, std::uint32_t max_inline_bytes, bool signal_all)
    : max_wr_(max_wr), max_sge_(max_sge), max_inline_bytes_(max_inline_bytes), signal_all_(signal_all) {
  const std::size_t data = std::max<std::size_t>(max_sge * sizeof(Sge), max_inline_bytes);
  stride_ = sizeof(SendWqe) + (data + 15) / 16 * 16;
  const std::uint32_t slots = max_wr == 0 ? 1 : std::bit_ceil(max_wr);
  mask_ = slots - 1;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(slots * stride_);
}

std::int64_t SendQueue::message_bytes(const SendRequest& request) const {
  std::uint64_t length = 0;
  for (std::uint32_t i = 0; i < request.num_sge; ++i) length += request.sges[i].length;
  if (length > kMaxMessageBytes) return -1;
  const bool is_inline = (request.flags & kSendInline) != 0;
  // Inline data that was gathered already is one element, on a queue for none as well.
  if (request.num_sge > (is_inline ? std::max(max_sge_, 1u) : max_sge_)) return -1;
  if (is_inline && length > max_inline_bytes_) return -1;
  // What an atomic fetches needs its place before the other end is changed.
  const bool is_atomic = request.opcode == WrOpcode::kAtomicCmpSwp || request.opcode == WrOpcode::kAtomicFetchAdd;
  if (is_atomic && length < kAtomicBytes) return -1;
  return static_cast<std::int64_t>(length);
}

int SendQueue::post(const SendRequest& request) {
  const std::int64_t length = message_bytes(request);
  if (length < 0) return EINVAL;
  LockGuard guard(post_lock_);
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  if (!has_room(tail, 1)) return ENOMEM;
  write(tail, request, static_cast<std::uint32_t>(length));
  tail_.store(tail + 1, std::memory_order_release);
  return 0;
}

int SendQueue::post_all(std::span<const SendRequest> batch) {
  for (const SendRequest& request : batch)
    if (message_bytes(request) < 0) return EINVAL;
  LockGuard guard(post_lock_);
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  if (!has_room(tail, batch.size())) return ENOMEM;
  std::uint32_t index = tail;
  for (const SendRequest& request : batch) write(index++, request, static_cast<std::uint32_t>(message_bytes(request)));
  tail_.store(index, std::memory_order_release);
  return 0;
}

void SendQueue::write(std::uint32_t index, const SendRequest& request, std::uint32_t length) {
  SendWqe& wqe = at(index);
  wqe.wr_id = request.wr_id;
  wqe.remote_addr = request.remote_addr;
  wqe.compare_add = request.compare_add;
  wqe.swap = request.swap;
  wqe.ah = request.ah;
  wqe.rkey = request.rkey;
  wqe.imm_or_rkey = request.imm_or_rkey;
  wqe.length = length;
  wqe.remote_qpn = request.remote_qpn;
  wqe.remote_qkey = request.remote_qkey;
  wqe.num_sge = static_cast<std::uint16_t>(request.num_sge);
  wqe.opcode = request.opcode;
  wqe.flags = signal_all_ ? request.flags | kSendSignaled : request.flags;
  if ((request.flags & kSendInline) != 0) {
    std::byte* out = wqe.inline_data();
    for (std::uint32_t i = 0; i < request.num_sge; ++i) {
      std::memcpy(out, reinterpret_cast<const void*>(request.sges[i].addr), request.sges[i].length);
      out += request.sges[i].length;
    }
  } else {
    for (std::uint32_t i = 0; i < request.num_sge; ++i) wqe.sges()[i] = request.sges[i];
  }
}

}  // namespace roci
