// Who turns one worker: a background thread of its own, and callers, unless the worker has a core to itself.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "stack/base/types.h"
#include "stack/engine/worker.h"

namespace roci {

/// Who turns the worker (design: callers inline, a background thread for the passive side).
enum class ProgressMode : std::uint8_t { kAuto, kInline, kThread };

class LiveWorker {
 public:
  /// With a core, only the thread turns the worker, pinned to that core, whatever `mode`.
  LiveWorker(Worker& worker, ProgressMode mode, std::optional<std::uint32_t> core)
      : worker_(worker), core_(core), mode_(core.has_value() ? ProgressMode::kThread : mode) {}
  ~LiveWorker() { stop(); }
  LiveWorker(const LiveWorker&) = delete;
  LiveWorker& operator=(const LiveWorker&) = delete;

  /// Starts the background thread; an errno value.
  int start();
  void stop();

  /// Data path, any thread: after posting, or when a poll found nothing. Turns the worker once in the caller's thread
  /// if that is wanted and the baton is free.
  void progress(TurnReason reason);

  /// A caller that holds the baton: turns the worker, and gives the baton back.
  void turn_for_caller();

  Worker& worker() { return worker_; }

 private:
  static void* thread_main(void* self);

  // The background thread.
  void run();
  std::optional<TurnResult> turn_in_background();
  bool callers_turn(Instant now) const;
  void look_again(Duration idle);
  void spin_longer();
  void nap_beside_callers(Instant now);
  void nap_beside_turn(Duration at_most);
  void sleep(Instant now, const TurnResult& result);

  void leave_to_thread(TurnReason reason);
  TurnResult turn_holding_baton(TurnReason reason);
  void wake_sleeper(const TurnResult& result);

  Worker& worker_;
  const std::optional<std::uint32_t> core_;
  const ProgressMode mode_;

  pthread_t thread_{};
  bool thread_started_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> last_poll_ps_{INT64_MIN};     ///< when a caller last polled
  std::atomic<std::int64_t> asleep_until_ps_{INT64_MIN};  ///< background thread: INT64_MIN while awake
  Duration spin_{};                                       ///< background thread: how long it looks before it sleeps
  std::uint32_t rings_since_probe_ = 0;
};

}  // namespace roci
