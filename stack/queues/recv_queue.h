// Receive queue: receive WQEs that the application posts and the responder consumes, of one QP or shared (SRQ).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "stack/base/spin_lock.h"
#include "stack/queues/work.h"

namespace roci {

struct Pd;

/// A receive WQE in the ring; `num_sge` elements of Sge follow it.
struct RecvWqe {
  std::uint64_t wr_id;
  std::uint32_t num_sge;
  std::uint32_t total_bytes;

  const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
  Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
};
static_assert(sizeof(RecvWqe) == 16);

class RecvQueue {
 public:
  RecvQueue(std::uint32_t max_wr, std::uint32_t max_sge);
  /// Before the first post: several workers take from this queue at a time, by take() only.
  void share();

  std::uint32_t max_wr() const { return max_wr_; }
  std::uint32_t max_sge() const { return max_sge_; }

  /// Any thread. ENOMEM when full, EINVAL for too many elements.
  int post(const RecvRequest& request);

  /// Worker: copies the oldest WQE not consumed to `out`, of stride() bytes, and consumes it; its slot may be
  /// overwritten by the next post. False if there is none.
  bool take(RecvWqe* out) {
    if (copied_ != nullptr) [[unlikely]]
      return take_shared(out);
    const RecvWqe* wqe = front();
    if (wqe == nullptr) return false;
    std::memcpy(out, wqe, sizeof(RecvWqe) + wqe->num_sge * sizeof(Sge));
    pop();
    return true;
  }
  /// Worker: the oldest WQE not consumed, or null.
  const RecvWqe* front() const {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    return head == tail_.load(std::memory_order_acquire) ? nullptr : slot(head);
  }
  /// Worker: consumes the front; its slot may be overwritten by the next post.
  void pop() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  /// Exact for whoever took last, if nobody posts.
  std::uint32_t size() const {
    const std::uint32_t head = head_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_acquire) - head;
  }
  std::size_t stride() const { return stride_; }
  /// Control, under the baton, with no poster: forgets all WQEs (QP to RESET).
  void clear() { head_.store(tail_.load(std::memory_order_relaxed), std::memory_order_relaxed); }

 private:
  bool take_shared(RecvWqe* out);
  RecvWqe* slot(std::uint32_t index) const {
    return reinterpret_cast<RecvWqe*>(memory_.get() + (index & mask_) * stride_);
  }

  std::unique_ptr<std::byte[]> memory_;
  /// Of a shared queue, for each slot: the index of the WQE that may be written there next. A worker claims a WQE by
  /// moving the head on, and says here when it has copied it.
  std::unique_ptr<std::atomic<std::uint32_t>[]> copied_;
  std::size_t stride_ = 0;
  std::uint32_t mask_ = 0;
  std::uint32_t max_wr_ = 0;
  std::uint32_t max_sge_ = 0;

  alignas(64) std::atomic<std::uint32_t> tail_{0};  ///< poster writes
  SpinLock post_lock_;
  alignas(64) std::atomic<std::uint32_t> head_{0};  ///< worker writes, or all that share the queue
};

/// Shared receive queue (IBTA 10.2.9).
struct Srq {
  Srq(std::uint32_t max_wr, std::uint32_t max_sge) : queue(max_wr, max_sge) {}

  RecvQueue queue;
  Pd* pd = nullptr;
  void* user_ = nullptr;
  std::uint32_t users = 0;              ///< QPs on it; control, under the baton
  std::atomic<std::uint32_t> limit{0};  ///< armed limit; 0 when not armed. The worker that finds it reached disarms it

  void* user() const { return user_; }
};

}  // namespace roci
