// What a responder still has to answer, in PSN order, and the results of atomics kept for duplicates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "stack/base/types.h"

namespace roci {

/// A READ being answered, or an atomic already executed.
struct Response {
  bool is_atomic = false;
  Psn next_psn;  ///< of the next response packet
  std::uint32_t packets_left = 0;
  bool at_start = true;    ///< the next packet begins the response
  bool is_replay = false;  ///< its request was a duplicate
  std::uint64_t va = 0;    ///< READ: where the next packet's payload starts
  RKey rkey;
  std::uint32_t bytes_left = 0;
  std::uint64_t original = 0;  ///< atomic: the value before it
};

/// Bounded by max_dest_rd_atomic. Owner: worker.
class ResponseQueue {
 public:
  void resize(std::uint32_t capacity) {
    capacity_ = capacity;
    pending_ = std::make_unique<Response[]>(capacity);
    saved_ = std::make_unique<SavedAtomic[]>(capacity);
    clear();
  }
  void clear() { head_ = size_ = saved_next_ = saved_size_ = 0; }

  bool empty() const { return size_ == 0; }
  Response& front() { return pending_[head_]; }
  void push(const Response& response) {
    pending_[(head_ + size_) % capacity_] = response;
    ++size_;
  }
  void pop() {
    head_ = head_ + 1 == capacity_ ? 0 : head_ + 1;
    --size_;
  }
  /// Whether there is room for the response to one request more. If need be the oldest gives way, where a duplicate
  /// asked for it: of as many requests as are allowed at once, the requester has seen the oldest answered before it
  /// sent one more, and has asked for it again before the answer came.
  bool make_room() {
    if (size_ < capacity_) return true;
    if (!front().is_replay) return false;
    pop();
    return true;
  }
  /// A requester that asks again from `psn` no longer waits for what was to come from there on.
  void cut_from(Psn psn) {
    while (size_ > 0) {
      Response& last = pending_[(head_ + size_ - 1) % capacity_];
      if (last.next_psn.before(psn)) {
        const auto kept = static_cast<std::uint32_t>(psn.distance_from(last.next_psn));
        if (kept < last.packets_left) last.packets_left = kept;
        return;
      }
      --size_;
    }
  }

  void save_atomic(Psn psn, std::uint64_t original) {
    saved_[saved_next_] = {psn, original};
    saved_next_ = saved_next_ + 1 == capacity_ ? 0 : saved_next_ + 1;
    if (saved_size_ < capacity_) ++saved_size_;
  }
  /// The result of the atomic with `psn`, if it is among the last ones (IBTA 9.4.5: as many as READ resources).
  const std::uint64_t* find_atomic(Psn psn) const {
    for (std::uint32_t i = 0; i < saved_size_; ++i)
      if (saved_[i].psn == psn) return &saved_[i].original;
    return nullptr;
  }

 private:
  struct SavedAtomic {
    Psn psn;
    std::uint64_t original = 0;
  };

  std::unique_ptr<Response[]> pending_;
  std::unique_ptr<SavedAtomic[]> saved_;
  std::uint32_t capacity_ = 0;
  std::uint32_t head_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t saved_next_ = 0;
  std::uint32_t saved_size_ = 0;
};

}  // namespace roci
