// Completion queue: a bounded ring that the worker fills and poll empties.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "stack/queues/work.h"

namespace roci {

class Qp;
class Srq;
class Cq;

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
  kGidChange = 18,
  kSrqErr = 14,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
};

/// One asynchronous event (IBTA 11.6.3); the object it is about, by type, else null.
struct AsyncEvent {
  AsyncEventType type;
  Qp* qp = nullptr;
  Cq* cq = nullptr;
  Srq* srq = nullptr;
};

/// Where the worker tells of events. Called under the baton, at the end of a turn or of a control call.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_completion_event(Cq& cq) = 0;
  virtual void on_async_event(const AsyncEvent& event) = 0;
};

class Cq {
 public:
  /// Any thread: takes up to out.size() completions, oldest first.
  std::size_t poll(std::span<Cqe> out);
  /// Any thread: asks for one completion event at the next CQE, or the next solicited one or error (IBTA 11.4.2.2).
  void request_notify(bool solicited_only);

  void* user() const { return user_; }
  std::uint32_t capacity() const { return capacity_; }

 private:
  void* user_ = nullptr;
  std::uint32_t capacity_ = 0;
};

}  // namespace roci
