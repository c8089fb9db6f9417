#include "stack/queues/completion_queue.h"

#include <algorithm>
#include <bit>

#include "stack/queues/send_queue.h"

namespace roci {

Cq::Cq(std::uint32_t capacity, void* user)
    : ring_(std::make_unique<Cqe[]>(std::bit_ceil(capacity))),
      mask_(std::bit_ceil(capacity) - 1),
      capacity_(capacity),
      user_(user) {}

std::size_t Cq::poll(std::span<Cqe> out) {
  // An empty CQ is the common answer to a spinning caller: no lock for that.
  if (tail_.load(std::memory_order_acquire) == head_.load(std::memory_order_relaxed)) return 0;
  LockGuard guard(poll_lock_);
  const std::uint32_t head = head_.load(std::memory_order_relaxed);
  const std::uint32_t waiting = tail_.load(std::memory_order_acquire) - head;
  const std::size_t count = std::min<std::size_t>(waiting, out.size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = ring_[(head + i) & mask_];
    if (out[i].sq != nullptr) out[i].sq->reclaim(out[i].sq_free_end);
  }
  head_.store(head + static_cast<std::uint32_t>(count), std::memory_order_release);
  return count;
}

void Cq::request_notify(bool solicited_only) {
  // A request for any CQE is not weakened by a later one for solicited CQEs. The read-modify-write orders this before
  // the caller's next poll; take_event() has its counterpart after the push.
  const std::uint32_t wanted = solicited_only ? kArmedSolicited : kArmedNext;
  std::uint32_t now = armed_.load(std::memory_order_relaxed);
  while (!armed_.compare_exchange_weak(now, std::max(now, wanted), std::memory_order_seq_cst)) {
  }
}

bool Cq::push(const Cqe& cqe) {
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) >= capacity_) return false;
  ring_[tail & mask_] = cqe;
  tail_.store(tail + 1, std::memory_order_release);
  solicited_ |= cqe.solicited || cqe.status != WcStatus::kSuccess;
  return true;
}

bool Cq::take_event() {
  const bool solicited = std::exchange(solicited_, false);
  touched_ = false;
  std::uint32_t armed = armed_.fetch_or(0, std::memory_order_seq_cst);
  if (armed == kNotArmed || (armed == kArmedSolicited && !solicited)) return false;
  return armed_.exchange(kNotArmed, std::memory_order_seq_cst) != kNotArmed;
}

bool Cq::resize(std::uint32_t capacity) {
  LockGuard guard(poll_lock_);
  const std::uint32_t head = head_.load(std::memory_order_relaxed);
  const std::uint32_t waiting = tail_.load(std::memory_order_relaxed) - head;
  if (waiting > capacity) return false;
  auto ring = std::make_unique<Cqe[]>(std::bit_ceil(capacity));
  for (std::uint32_t i = 0; i < waiting; ++i) ring[i] = ring_[(head + i) & mask_];
  ring_ = std::move(ring);
  mask_ = std::bit_ceil(capacity) - 1;
  capacity_ = capacity;
  head_.store(0, std::memory_order_relaxed);
  tail_.store(waiting, std::memory_order_release);
  return true;
}

void Cq::forget(const SendQueue& sq) {
  LockGuard guard(poll_lock_);
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  for (std::uint32_t i = head_.load(std::memory_order_relaxed); i != tail; ++i)
    if (ring_[i & mask_].sq == &sq) ring_[i & mask_].sq = nullptr;
}

void Cq::discard(Qpn qpn) {
  LockGuard guard(poll_lock_);
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  std::uint32_t end = head_.load(std::memory_order_relaxed);
  for (std::uint32_t i = end; i != tail; ++i)
    if (ring_[i & mask_].qpn != qpn) ring_[end++ & mask_] = ring_[i & mask_];
  tail_.store(end, std::memory_order_release);
}

}  // namespace roci
