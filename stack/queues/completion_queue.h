// Completion queue: a bounded ring for each worker that completes here, which it fills, and poll empties them all.
#pragma once

#include <array>
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

/// Workers of one device at most.
inline constexpr std::uint32_t kMaxWorkers = 16;

/// Each ring holds as many CQEs as the CQ was made for: what fits is never lost, whichever workers it comes from.
class Cq {
 public:
  Cq(std::uint32_t capacity, void* user);

  /// Any thread: takes up to out.size() completions, those of one worker oldest first, and frees the send queue slots
  /// they account for.
  std::size_t poll(std::span<Cqe> out);
  /// Any thread: asks for one completion event at the next CQE, or the next solicited one or error (IBTA 11.4.2.2).
  void request_notify(bool solicited_only);

  void* user() const { return user_; }
  std::uint32_t capacity() const { return first_.capacity; }

  /// Any thread: a bit for each worker that may complete here.
  std::uint32_t workers() const { return workers_.load(std::memory_order_relaxed); }

  /// Control, under the batons: from now on the worker of this number may complete here, as the first always may.
  void admit(std::uint32_t worker);

  // The worker of this number.
  /// Adds a CQE; false when its ring is full, and the CQE is lost (IBTA 10.10.4: a CQ overrun).
  bool push(const Cqe& cqe, std::uint32_t worker = 0);
  /// At the end of a turn that pushed: true if a completion event is due; disarms.
  bool take_event(std::uint32_t worker = 0);
  /// True the first time since the last take_event().
  bool mark_touched(std::uint32_t worker = 0) { return !std::exchange(lane(worker).touched, true); }
  /// A CQE was lost: true the first time.
  bool mark_overrun() { return !overrun_.exchange(true, std::memory_order_relaxed); }

  /// Control, under the batons. False if more CQEs wait than `capacity` holds.
  bool resize(std::uint32_t capacity);

  /// Control, under the batons: `sq` is about to go; its CQEs stay, and no longer name it.
  void forget(const SendQueue& sq);
  /// Control, under the batons: drops the CQEs of a QP that begins anew.
  void discard(Qpn qpn);

  std::uint32_t users = 0;  ///< QPs that complete here; control, under the batons

 private:
  enum Armed : std::uint32_t { kNotArmed, kArmedSolicited, kArmedNext };

  /// From one worker to poll.
  struct Lane {
    explicit Lane(std::uint32_t capacity);

    bool is_empty() const { return tail.load(std::memory_order_acquire) == head.load(std::memory_order_relaxed); }
    std::uint32_t waiting() const {
      return tail.load(std::memory_order_acquire) - head.load(std::memory_order_relaxed);
    }
    /// Under the poll lock.
    std::size_t take(std::span<Cqe> out);
    void resize(std::uint32_t capacity);
    void forget(const SendQueue& sq);
    void discard(Qpn qpn);

    std::unique_ptr<Cqe[]> ring;
    std::uint32_t mask;
    std::uint32_t capacity;
    alignas(64) std::atomic<std::uint32_t> tail{0};  ///< worker writes
    bool touched = false;
    bool solicited = false;
    alignas(64) std::atomic<std::uint32_t> head{0};  ///< poll writes
  };

  Lane& lane(std::uint32_t worker) { return worker == 0 ? first_ : *others_[worker]; }
  template <class Visit>
  void for_each_lane(Visit visit);
  std::size_t poll_all(std::span<Cqe> out);

  Lane first_;
  std::atomic<std::uint32_t> armed_{kNotArmed};
  SpinLock poll_lock_;
  std::atomic<bool> overrun_{false};
  void* user_ = nullptr;
  std::atomic<std::uint32_t> workers_{1};
  std::uint32_t next_ = 0;  ///< poll: the lane to look at first
  std::array<std::unique_ptr<Lane>, kMaxWorkers> others_;
};

}  // namespace roci
