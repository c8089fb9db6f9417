#include "stack/queues/recv_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace roci {

RecvQueue::RecvQueue(std::uint32_t max_wr, std::uint32_t max_sge)
    : stride_(sizeof(RecvWqe) + max_sge * sizeof(Sge)), max_wr_(max_wr), max_sge_(max_sge) {
  const std::uint32_t slots = max_wr == 0 ? 1 : std::bit_ceil(max_wr);
  mask_ = slots - 1;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(slots * stride_);
}

void RecvQueue::share() {
  copied_ = std::make_unique<std::atomic<std::uint32_t>[]>(mask_ + 1);
  for (std::uint32_t i = 0; i <= mask_; ++i) copied_[i].store(i, std::memory_order_relaxed);
}

bool RecvQueue::take_shared(RecvWqe* out) {
  std::uint32_t head = head_.load(std::memory_order_relaxed);
  do {
    if (head == tail_.load(std::memory_order_acquire)) return false;
  } while (!head_.compare_exchange_weak(head, head + 1, std::memory_order_acq_rel, std::memory_order_relaxed));
  const RecvWqe* wqe = slot(head);
  std::memcpy(out, wqe, sizeof(RecvWqe) + wqe->num_sge * sizeof(Sge));
  copied_[head & mask_].store(head + mask_ + 1, std::memory_order_release);
  return true;
}

int RecvQueue::post(const RecvRequest& request) {
  if (request.num_sge > max_sge_) return EINVAL;
  LockGuard guard(post_lock_);
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) >= max_wr_) return ENOMEM;
  // A worker may be in the middle of the few instructions that copy what was there before.
  while (copied_ != nullptr && copied_[tail & mask_].load(std::memory_order_acquire) != tail) __builtin_ia32_pause();
  RecvWqe* wqe = slot(tail);
  wqe->wr_id = request.wr_id;
  wqe->num_sge = request.num_sge;
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < request.num_sge; ++i) {
    wqe->sges()[i] = request.sges[i];
    total += request.sges[i].length;
  }
  wqe->total_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(total, UINT32_MAX));
  tail_.store(tail + 1, std::memory_order_release);
  return 0;
}

}  // namespace roci
