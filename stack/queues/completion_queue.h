// Completion queue: a bounded ring that the worker fills and poll empties.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "stack/base/spin_lock.h"
#include "stack/queues/work.h"

namespace roci {

class Qp;
class Cq;
struct Srq;

/// Values of ibv_event_type, as far as the stack raises them.
enum class AsyncEventType : std::uint8_t {
  kCqErr = 0,
  kQpFatal = 1,
  kQpReqErr = 2,
  kQpAccessErr = 3,
  kCommEst = 4,
  kSqDrained = 5,
  kPortActive = 9,
  kPortErr = 10,
  kSrqErr = 14,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
  kGidChange = 18,
};

/// One asynchronous event (IBTA 11.6.3); the object it is about, by type, else null.
struct AsyncEvent {
  AsyncEventType type;
  Qp* qp = nullptr;
  Cq* cq = nullptr;
  Srq* srq = nullptr;
};

/// Where the worker tells of events. Called under the baton, at the end of a turn or of a control call: it must not
/// block or call the device.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_completion_event(Cq& cq) = 0;
  virtual void on_async_event(const AsyncEvent& event) = 0;
};

class Cq {
 public:
  Cq(std::uint32_t capacity, void* user);

  /// Any thread: takes up to out.size() completions, oldest first, and frees the send queue slots they account for.
  std::size_t poll(std::span<Cqe> out);
  /// Any thread: asks for one completion event at the next CQE, or the next solicited one or error (IBTA 11.4.2.2).
  void request_notify(bool solicited_only);

  void* user() const { return user_; }
  std::uint32_t capacity() const { return capacity_; }

  /// Worker: adds a CQE; false when the CQ is full, and the CQE is lost (IBTA 10.10.4: a CQ overrun).
  bool push(const Cqe& cqe);
  /// Worker, at the end of a turn that pushed: true if a completion event is due; disarms.
  bool take_event();
  /// Worker: true the first time since the last take_event().
  bool mark_touched() { return !std::exchange(touched_, true); }

  /// Control, under the baton. False if more CQEs wait than `capacity` holds.
  bool resize(std::uint32_t capacity);

  /// Control, under the baton: `sq` is about to go; its CQEs stay, and no longer name it.
  void forget(const SendQueue& sq);
  /// Control, under the baton: drops the CQEs of a QP that begins anew.
  void discard(Qpn qpn);

  std::uint32_t users = 0;  ///< QPs that complete here; control, under the baton
  bool overrun = false;     ///< worker: a CQE was lost; raised once

 private:
  enum Armed : std::uint32_t { kNotArmed, kArmedSolicited, kArmedNext };

  std::unique_ptr<Cqe[]> ring_;
  std::uint32_t mask_ = 0;
  std::uint32_t capacity_ = 0;
  void* user_ = nullptr;

  alignas(64) std::atomic<std::uint32_t> tail_{0};  ///< worker writes
  bool touched_ = false;
  bool solicited_ = false;

  alignas(64) std::atomic<std::uint32_t> head_{0};  ///< poll writes
  std::atomic<std::uint32_t> armed_{kNotArmed};
  SpinLock poll_lock_;
};

}  // namespace roci
