#include "stack/queues/completion_queue.h"

#include <algorithm>
#include <bit>

#include "stack/queues/send_queue.h"

namespace roci {

Cq::Lane::Lane(std::uint32_t entries)
    : ring(std::make_unique<Cqe[]>(std::bit_ceil(entries))), mask(std::bit_ceil(entries) - 1), capacity(entries) {}

std::size_t Cq::Lane::take(std::span<Cqe> out) {
  const std::uint32_t begin = head.load(std::memory_order_relaxed);
  const std::uint32_t there = tail.load(std::memory_order_acquire) - begin;
  const std::size_t count = std::min<std::size_t>(there, out.size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = ring[(begin + i) & mask];
    if (out[i].sq != nullptr) out[i].sq->reclaim(out[i].sq_free_end);
  }
  head.store(begin + static_cast<std::uint32_t>(count), std::memory_order_release);
  return count;
}

void Cq::Lane::resize(std::uint32_t entries) {
  const std::uint32_t begin = head.load(std::memory_order_relaxed);
  const std::uint32_t count = waiting();
  auto larger = std::make_unique<Cqe[]>(std::bit_ceil(entries));
  for (std::uint32_t i = 0; i < count; ++i) larger[i] = ring[(begin + i) & mask];
  ring = std::move(larger);
  mask = std::bit_ceil(entries) - 1;
  capacity = entries;
  head.store(0, std::memory_order_relaxed);
  tail.store(count, std::memory_order_release);
}

void Cq::Lane::forget(const SendQueue& sq) {
  const std::uint32_t end = tail.load(std::memory_order_relaxed);
  for (std::uint32_t i = head.load(std::memory_order_relaxed); i != end; ++i)
    if (ring[i & mask].sq == &sq) ring[i & mask].sq = nullptr;
}

void Cq::Lane::discard(Qpn qpn) {
  const std::uint32_t end = tail.load(std::memory_order_relaxed);
  std::uint32_t kept = head.load(std::memory_order_relaxed);
  for (std::uint32_t i = kept; i != end; ++i)
    if (ring[i & mask].qpn != qpn) ring[kept++ & mask] = ring[i & mask];
  tail.store(kept, std::memory_order_release);
}

Cq::Cq(std::uint32_t capacity, void* user) : first_(capacity), user_(user) {}

template <class Visit>
void Cq::for_each_lane(Visit visit) {
  visit(first_);
  for (const auto& other : others_)
    if (other != nullptr) visit(*other);
}

void Cq::admit(std::uint32_t worker) {
  if ((workers() >> worker & 1) != 0) return;
  others_[worker] = std::make_unique<Lane>(capacity());
  // Whoever polls meanwhile finds the lane made when it finds the bit.
  workers_.fetch_or(1u << worker, std::memory_order_release);
}

std::size_t Cq::poll(std::span<Cqe> out) {
  if (workers_.load(std::memory_order_acquire) != 1) [[unlikely]]
    return poll_all(out);
  // An empty CQ is the common answer to a spinning caller: no lock for that.
  if (first_.is_empty()) return 0;
  LockGuard guard(poll_lock_);
  return first_.take(out);
}

/// Each time another worker's lane is the first: none waits for long behind a busy one.
std::size_t Cq::poll_all(std::span<Cqe> out) {
  const std::uint32_t workers = workers_.load(std::memory_order_acquire);
  bool is_empty = true;
  for (std::uint32_t left = workers; left != 0 && is_empty; left &= left - 1)
    is_empty = lane(static_cast<std::uint32_t>(std::countr_zero(left))).is_empty();
  if (is_empty) return 0;
  LockGuard guard(poll_lock_);
  std::size_t taken = 0;
  const std::uint32_t begin = next_++;
  for (std::uint32_t i = 0; i < kMaxWorkers && taken < out.size(); ++i) {
    const std::uint32_t worker = (begin + i) % kMaxWorkers;
    if ((workers >> worker & 1) != 0) taken += lane(worker).take(out.subspan(taken));
  }
  return taken;
}

void Cq::request_notify(bool solicited_only) {
  // A request for any CQE is not weakened by a later one for solicited CQEs. The read-modify-write orders this before
  // the caller's next poll; take_event() has its counterpart after the push.
  const std::uint32_t wanted = solicited_only ? kArmedSolicited : kArmedNext;
  std::uint32_t now = armed_.load(std::memory_order_relaxed);
  while (!armed_.compare_exchange_weak(now, std::max(now, wanted), std::memory_order_seq_cst)) {
  }
}

bool Cq::push(const Cqe& cqe, std::uint32_t worker) {
  Lane& to = lane(worker);
  const std::uint32_t tail = to.tail.load(std::memory_order_relaxed);
  if (tail - to.head.load(std::memory_order_acquire) >= to.capacity) return false;
  to.ring[tail & to.mask] = cqe;
  to.tail.store(tail + 1, std::memory_order_release);
  to.solicited |= cqe.solicited || cqe.status != WcStatus::kSuccess;
  return true;
}

bool Cq::take_event(std::uint32_t worker) {
  Lane& from = lane(worker);
  const bool solicited = std::exchange(from.solicited, false);
  from.touched = false;
  std::uint32_t armed = armed_.fetch_or(0, std::memory_order_seq_cst);
  // One event for one request, whichever worker is first.
  while (armed == kArmedNext || (armed == kArmedSolicited && solicited))
    if (armed_.compare_exchange_weak(armed, kNotArmed, std::memory_order_seq_cst)) return true;
  return false;
}

bool Cq::resize(std::uint32_t capacity) {
  LockGuard guard(poll_lock_);
  std::uint64_t waiting = 0;
  for_each_lane([&](const Lane& one) { waiting += one.waiting(); });
  if (waiting > capacity) return false;
  for_each_lane([&](Lane& one) { one.resize(capacity); });
  return true;
}

void Cq::forget(const SendQueue& sq) {
  LockGuard guard(poll_lock_);
  for_each_lane([&](Lane& one) { one.forget(sq); });
}

void Cq::discard(Qpn qpn) {
  LockGuard guard(poll_lock_);
  for_each_lane([&](Lane& one) { one.discard(qpn); });
}

}  // namespace roci
