#include "drivers/live/live_worker.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <string>

#include "drivers/live/clock.h"

namespace roci {
namespace {

/// While a caller polled this recently, the background thread leaves the worker to it.
constexpr Duration kCallerRecent = milliseconds(2);
constexpr Duration kNapWhileCallersTurn = milliseconds(1);
/// A QP waits for room in the link: nothing rings when there is some.
constexpr Duration kNapForRoom = microseconds(50);
/// Another thread is in the middle of a turn, or was put aside there: looking on would only take the core from it.
constexpr Duration kNapBesideTurn = microseconds(50);
constexpr Duration kLongestSleep = seconds(1);
constexpr Duration kLongestSpin = microseconds(50);
constexpr Duration kProbeSpin = microseconds(20);
constexpr std::uint32_t kRingsPerProbe = 16;
constexpr std::uint32_t kBusyTriesBeforeYield = 64;
constexpr Duration kIdleBeforeYield = microseconds(50);
constexpr std::uint32_t kTurnsPerProgress = 4;

/// A worker with a core of its own lets others run there once it has found nothing for so long.
constexpr Duration kIdleBeforeSharing = microseconds(2);

}  // namespace

int LiveWorker::start() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (core_.has_value()) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(*core_, &cores);
    pthread_attr_setaffinity_np(&attributes, sizeof cores, &cores);
  }
  // The application's signals are for its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, &attributes, thread_main, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) return error;
  thread_started_ = true;
  const std::string name = core_.has_value() ? "roci-core-" + std::to_string(*core_) : "roci-background";
  pthread_setname_np(thread_, name.c_str());
  return 0;
}

void LiveWorker::stop() {
  if (!thread_started_) return;
  stop_.store(true, std::memory_order_seq_cst);
  worker_.port().wake();
  pthread_join(thread_, nullptr);
  thread_started_ = false;
}

void* LiveWorker::thread_main(void* self) {
  // Faults of user memory are the one kind of signal that this thread must take.
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  // Paced QPs wait for times a few microseconds off; by default a sleep may be 50 us longer than asked for.
  prctl(PR_SET_TIMERSLACK, 1);
  static_cast<LiveWorker*>(self)->run();
  return nullptr;
}

void LiveWorker::turn_for_caller() { wake_sleeper(turn_holding_baton(TurnReason::kPost)); }

TurnResult LiveWorker::turn_holding_baton(TurnReason reason) {
  TurnResult result = worker_.turn(live_now(), reason);
  worker_.baton().unlock();
  // Whoever posted while the baton was held could not take it: their QPs are on the list, and are ours to serve.
  for (std::uint32_t i = 1; i < kTurnsPerProgress && worker_.has_rung() && worker_.baton().try_lock(); ++i) {
    result = worker_.turn(live_now(), reason);
    worker_.baton().unlock();
  }
  return result;
}

void LiveWorker::progress(TurnReason reason) {
  if (mode_ == ProgressMode::kThread) return leave_to_thread(reason);
  thread_local std::uint32_t busy_tries = 0;
  if (!worker_.baton().try_lock()) {
    if (++busy_tries % kBusyTriesBeforeYield == 0) sched_yield();
    return;
  }
  busy_tries = 0;
  const TurnResult result = turn_holding_baton(reason);
  if (reason == TurnReason::kPost) return wake_sleeper(result);
  last_poll_ps_.store(result.at.ps, std::memory_order_relaxed);
  thread_local Instant last_work{};
  if (result.worked()) last_work = result.at;
  // Whoever is to answer may be waiting for this very core.
  if (result.at - last_work > kIdleBeforeYield) sched_yield();
}

void LiveWorker::leave_to_thread(TurnReason reason) {
  if (reason == TurnReason::kPost) {
    if (asleep_until_ps_.load(std::memory_order_seq_cst) != INT64_MIN) worker_.port().wake();
    return;
  }
  // The core may be the caller's own.
  thread_local std::uint32_t empty_polls = 0;
  if (core_.has_value() && ++empty_polls % kBusyTriesBeforeYield == 0) sched_yield();
}

/// A caller that posts may not come back: what its turn left undone, and the deadlines it made, are the background
/// thread's.
void LiveWorker::wake_sleeper(const TurnResult& result) {
  const std::int64_t until = asleep_until_ps_.load(std::memory_order_seq_cst);
  if (until == INT64_MIN) return;
  if (result.more_to_do || result.waits_for_room || result.next_deadline.ps < until) worker_.port().wake();
}

/// Nothing if another thread has the baton.
std::optional<TurnResult> LiveWorker::turn_in_background() {
  if (!worker_.baton().try_lock()) return std::nullopt;
  return turn_holding_baton(TurnReason::kBackground);
}

bool LiveWorker::callers_turn(Instant now) const {
  const Instant last_poll{last_poll_ps_.load(std::memory_order_relaxed)};
  return last_poll.ps != INT64_MIN && now - last_poll < kCallerRecent;
}

void LiveWorker::run() {
  spin_ = mode_ == ProgressMode::kInline ? Duration{} : kLongestSpin;
  Instant now = live_now();
  Instant last_work = now;
  bool slept = false;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (callers_turn(now)) {
      nap_beside_callers(now);
      now = live_now();
      continue;
    }
    const std::optional<TurnResult> result = turn_in_background();
    now = result.has_value() ? result->at : live_now();
    if (result.has_value() && result->worked()) {
      // Looking instead of sleeping paid off if it found this work.
      if (!slept) spin_longer();
      slept = false;
      last_work = now;
    } else if (now - last_work < spin_) {
      look_again(now - last_work);
    } else {
      // On a core shared with a busy application, looking only keeps that application from running.
      if (mode_ == ProgressMode::kAuto) spin_ = {spin_.ps / 2};
      slept = true;
      sleep(now, result.value_or(TurnResult{.at = now}));
      now = live_now();
    }
  }
}

void LiveWorker::look_again(Duration idle) {
  if (core_.has_value() && idle > kIdleBeforeSharing)
    sched_yield();
  else
    __builtin_ia32_pause();
}

void LiveWorker::spin_longer() {
  if (mode_ != ProgressMode::kInline) spin_ = std::min(kLongestSpin, std::max(spin_ + spin_, kProbeSpin));
}

/// Callers turn the worker: this thread only makes sure that somebody still does, and answers a peer that rings because
/// the caller has not been seen for a while.
void LiveWorker::nap_beside_callers(Instant now) {
  asleep_until_ps_.store((now + kNapWhileCallersTurn).ps, std::memory_order_seq_cst);
  worker_.port().prepare_wait(false);
  const bool rung = worker_.port().wait(kNapWhileCallersTurn);
  asleep_until_ps_.store(INT64_MIN, std::memory_order_seq_cst);
  if (rung) turn_in_background();
}

/// Somebody else has the baton; the last look may have been too early. What arrives meanwhile is theirs, and need not
/// ring.
void LiveWorker::nap_beside_turn(Duration at_most) {
  worker_.port().cancel_wait();
  worker_.port().prepare_wait(false);
  worker_.port().wait(std::min(at_most, kNapBesideTurn));
}

void LiveWorker::sleep(Instant now, const TurnResult& result) {
  const Instant until = std::min(now + (result.waits_for_room ? kNapForRoom : kLongestSleep), result.next_deadline);
  if (until <= now) return;
  asleep_until_ps_.store(until.ps, std::memory_order_seq_cst);
  worker_.port().prepare_wait(!result.waits_for_room);
  // What was posted or arrived before this was said found nobody asleep to wake: one more turn looks for it.
  const std::optional<TurnResult> last_look = turn_in_background();
  bool rung = false;
  if (!last_look.has_value()) {
    nap_beside_turn(until - now);
  } else if (!last_look->worked() && last_look->next_deadline >= until && !stop_.load(std::memory_order_seq_cst)) {
    rung = worker_.port().wait(until - now);
  } else {
    worker_.port().cancel_wait();
  }
  asleep_until_ps_.store(INT64_MIN, std::memory_order_seq_cst);
  // Rung often: looking a little before sleeping may be worth another try.
  if (!rung || mode_ != ProgressMode::kAuto || ++rings_since_probe_ < kRingsPerProbe) return;
  rings_since_probe_ = 0;
  spin_ = std::max(spin_, kProbeSpin);
}

}  // namespace roci
