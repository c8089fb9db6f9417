// The baton: whoever holds it turns the worker or changes what the worker reads. Taken once per turn, never per packet.
#pragma once

#include <atomic>
#include <cstdint>

namespace roci {

class Baton {
 public:
  /// For a turn: fails if the baton is taken, or if a control call waits for it (so that spinning callers cannot starve
  /// a control call).
  bool try_lock() {
    if (waiters_.load(std::memory_order_relaxed) != 0) return false;
    return !taken_.exchange(true, std::memory_order_seq_cst);
  }

  /// For a control call: waits.
  void lock() {
    waiters_.fetch_add(1, std::memory_order_relaxed);
    while (taken_.exchange(true, std::memory_order_seq_cst)) taken_.wait(true, std::memory_order_relaxed);
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }

  void unlock() {
    taken_.store(false, std::memory_order_seq_cst);
    if (waiters_.load(std::memory_order_seq_cst) != 0) taken_.notify_all();
  }

 private:
  std::atomic<bool> taken_{false};
  std::atomic<std::uint32_t> waiters_{0};
};

}  // namespace roci
