// Send queue: WQEs that the application posts, the requester sends and the completer completes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "stack/base/spin_lock.h"
#include "stack/queues/work.h"

namespace roci {

/// A send WQE in the ring. `num_sge` elements of Sge follow it, or `length` bytes when kSendInline is set.
struct SendWqe {
  std::uint64_t wr_id;
  std::uint64_t remote_addr;
  std::uint64_t compare_add;
  std::uint64_t swap;
  AddressHandle* ah;
  RKey rkey;
  std::uint32_t imm_or_rkey;
  std::uint32_t length;  ///< bytes of the message
  Qpn remote_qpn;
  std::uint32_t remote_qkey;
  std::uint16_t num_sge;
  WrOpcode opcode;
  std::uint8_t flags;  ///< SendFlag bits; kSendSignaled is set for a QP that signals all

  // Written by the worker when the requester starts the WQE.
  Psn first_psn;
  Psn last_psn;

  const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
  Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
  const std::byte* inline_data() const { return reinterpret_cast<const std::byte*>(this + 1); }
  std::byte* inline_data() { return reinterpret_cast<std::byte*>(this + 1); }
  bool is_read_or_atomic() const {
    return opcode == WrOpcode::kRdmaRead || opcode == WrOpcode::kAtomicCmpSwp || opcode == WrOpcode::kAtomicFetchAdd;
  }
  /// It sends nothing.
  bool is_local() const { return opcode == WrOpcode::kLocalInv || opcode == WrOpcode::kBindMw; }
};
static_assert(sizeof(SendWqe) == 72);

/// Indices count WQEs since creation and wrap at 2^32; a slot is index & mask.
///
/// A WQE is outstanding from tail to head: until it completes. Its slot is taken until the CQE is polled that says so,
/// its own or that of a later WQE if it has none: no sooner can a consumer know that there is room.
/// So a CQ as large as the send queues it serves is never overrun, however fast somebody posts.
class SendQueue {
 public:
  SendQueue(std::uint32_t max_wr, std::uint32_t max_sge, std::uint32_t max_inline_bytes, bool signal_all);

  std::uint32_t max_wr() const { return max_wr_; }
  std::uint32_t max_sge() const { return max_sge_; }
  std::uint32_t max_inline_bytes() const { return max_inline_bytes_; }

  /// Any thread. ENOMEM when full, EINVAL when message_bytes() finds none.
  int post(const SendRequest& request);
  /// Any thread: as post(), for all of `batch` or none.
  int post_all(std::span<const SendRequest> batch);
  /// Any thread: the length of the message; -1 for too many elements, too much inline data, over 2^31 bytes, or too few
  /// for the result of an atomic.
  std::int64_t message_bytes(const SendRequest& request) const;
  /// Any thread: WQEs posted that have not completed.
  std::uint32_t outstanding() const {
    return tail_.load(std::memory_order_acquire) - head_.load(std::memory_order_seq_cst);
  }

  /// Any thread, under the lock of the CQ's poll: frees the slots before `end`.
  void reclaim(std::uint32_t end) { reclaimed_.store(end, std::memory_order_release); }

  // Worker.
  std::uint32_t tail() const { return tail_.load(std::memory_order_acquire); }
  std::uint32_t head() const { return head_.load(std::memory_order_relaxed); }
  SendWqe& at(std::uint32_t index) const {
    return *reinterpret_cast<SendWqe*>(memory_.get() + (index & mask_) * stride_);
  }
  /// The oldest WQE has completed. It stays readable until its slot is reclaimed.
  void pop() { head_.store(head() + 1, std::memory_order_release); }
  std::size_t stride() const { return stride_; }
  /// Control, under the baton, with no poster, and no CQE left that names this queue: forgets all WQEs (QP to RESET).
  void clear() {
    head_.store(tail_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    reclaim(head());
  }

 private:
  void write(std::uint32_t index, const SendRequest& request, std::uint32_t length);
  bool has_room(std::uint32_t tail, std::size_t count) const {
    return tail - reclaimed_.load(std::memory_order_acquire) + count <= max_wr_;
  }

  std::unique_ptr<std::byte[]> memory_;
  std::size_t stride_ = 0;
  std::uint32_t mask_ = 0;
  std::uint32_t max_wr_ = 0;
  std::uint32_t max_sge_ = 0;
  std::uint32_t max_inline_bytes_ = 0;
  bool signal_all_ = false;

  alignas(64) std::atomic<std::uint32_t> tail_{0};  ///< poster writes
  SpinLock post_lock_;
  std::atomic<std::uint32_t> reclaimed_{0};         ///< poll writes
  alignas(64) std::atomic<std::uint32_t> head_{0};  ///< worker writes
};

}  // namespace roci
