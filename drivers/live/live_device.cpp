#include "drivers/live/live_device.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "drivers/live/clock.h"
#include "drivers/live/fault_handler.h"
#include "drivers/live/link.h"

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
/// A paced QP may be served this late, by a thread that slept, without losing rate.
constexpr Duration kPacingCatchUp = microseconds(50);
constexpr Duration kProbeSpin = microseconds(20);
constexpr std::uint32_t kRingsPerProbe = 16;
constexpr std::uint32_t kBusyTriesBeforeYield = 64;
constexpr Duration kIdleBeforeYield = microseconds(50);
constexpr std::uint32_t kTurnsPerProgress = 4;

pthread_mutex_t instance_mutex = PTHREAD_MUTEX_INITIALIZER;
LiveDevice* instance = nullptr;
/// Counts the forks on the way to this process: a device of an older generation is the parent's.
std::atomic<std::uint32_t> generation{0};

void before_fork() { pthread_mutex_lock(&instance_mutex); }
void after_fork_in_parent() { pthread_mutex_unlock(&instance_mutex); }
void after_fork_in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  instance = nullptr;
  pthread_mutex_unlock(&instance_mutex);
}

ProgressMode progress_mode(const std::string& name) {
  if (name == "inline") return ProgressMode::kInline;
  if (name == "thread") return ProgressMode::kThread;
  return ProgressMode::kAuto;
}

std::uint8_t mtu_code(std::uint32_t wanted_bytes) {
  std::uint8_t code = 5;
  while (code > 1 && mtu_bytes(code) > wanted_bytes) --code;
  return code;
}

}  // namespace

/// On the way to the client, a change of addresses goes to whoever looks from outside, too.
class LiveDevice::Events : public EventSink {
 public:
  Events(EventSink& client, const Port& port, StackFile* file) : client_(client), port_(port), file_(file) {}
  void on_completion_event(Cq& cq) override { client_.on_completion_event(cq); }
  void on_async_event(const AsyncEvent& event) override {
    if (event.type == AsyncEventType::kGidChange && file_ != nullptr)
      file_->set_addresses(port_.attributes().addresses);
    client_.on_async_event(event);
  }

 private:
  EventSink& client_;
  const Port& port_;
  StackFile* file_;  ///< null on a link that tells of its addresses itself
};

class LiveDevice::SystemEntropy : public Entropy {
 public:
  std::uint64_t next() override {
    std::uint64_t value = 0;
    while (getrandom(&value, sizeof value, 0) != sizeof value) {
    }
    return value;
  }
};

std::uint32_t LiveDevice::current_generation() { return generation.load(std::memory_order_relaxed); }

LiveDevice::LiveDevice(const LiveConfig& config, std::uint32_t at_generation)
    : config_(config), generation_(at_generation), mode_(progress_mode(config.progress)) {}

LiveDevice::~LiveDevice() {
  stop_thread();
  cm_transport_.reset();
  cm_.reset();
  device_.reset();
  port_.reset();
}

LiveDevice* LiveDevice::acquire(EventSink& events) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); });
  pthread_mutex_lock(&instance_mutex);
  if (instance != nullptr)
    ++instance->references_;
  else
    instance = open(events);
  LiveDevice* device = instance;
  const int error = errno;
  pthread_mutex_unlock(&instance_mutex);
  errno = error;
  return device;
}

void LiveDevice::release() {
  if (detached()) return;
  pthread_mutex_lock(&instance_mutex);
  const bool last = --references_ == 0;
  if (last) instance = nullptr;
  pthread_mutex_unlock(&instance_mutex);
  if (last) delete this;
}

void LiveDevice::leave_at_exit() {
  LiveDevice* device = instance;
  if (device == nullptr || device->detached()) return;
  device->stop_thread();
  // For good: whichever thread still polls finds it taken. A thread that was interrupted in the middle of a turn to end
  // the process will never give it back; then the next one on the cable clears up.
  constexpr int kTries = 100;
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 1'000'000};
  for (int i = 0; i < kTries; ++i) {
    if (device->device_->worker().baton().try_lock()) {
      // Peers hear that their connections end here, as they do from a kernel when a process ends.
      device->cm_->destroy_all(live_now());
      device->device_->worker().turn(live_now(), TurnReason::kPost);
      device->port_->close();
      if (device->file_ != nullptr) device->file_->remove();
      return;
    }
    nanosleep(&kPause, nullptr);
  }
}

namespace {
[[gnu::destructor]] void at_exit() { LiveDevice::leave_at_exit(); }
}  // namespace

LiveDevice* LiveDevice::open(EventSink& events) {
  LiveConfig config;
  std::string error;
  if (!read_live_config(&config, &error)) {
    std::fprintf(stderr, "rocinante: %s\n", error.c_str());
    errno = EINVAL;
    return nullptr;
  }
  std::unique_ptr<LiveDevice> made(new LiveDevice(config, current_generation()));
  install_fault_handler();
  OpenedLink link = open_link(config, &error);
  if (link.port == nullptr) {
    const int reason = errno;
    std::fprintf(stderr, "rocinante: %s\n", error.c_str());
    errno = reason;
    return nullptr;
  }
  made->port_ = std::move(link.port);
  made->file_ = std::move(link.file);
  made->counters_ = link.counters;
  made->entropy_ = std::make_unique<SystemEntropy>();
  DeviceConfig device_config;
  device_config.cc = config.cc;
  device_config.egress = config.egress;
  device_config.egress.marks_data = config.cc.make != nullptr || config.egress.pfc != 0;
  device_config.egress.catch_up = kPacingCatchUp;
  device_config.most_mtu = mtu_code(config.mtu_bytes);
  made->events_ = std::make_unique<Events>(events, *made->port_, made->file_.get());
  made->device_ =
      std::make_unique<Device>(*made->port_, *made->events_, *made->entropy_, *made->counters_, device_config);
  made->make_connection_manager();
  if (!made->start_thread()) return nullptr;
  offer_device_view(view);
  return made.release();
}

bool LiveDevice::view(DeviceView* out) {
  // Not waited for: whoever opens a link may look at files on the way.
  if (pthread_mutex_trylock(&instance_mutex) != 0) return false;
  const bool is_open = instance != nullptr;
  if (is_open) instance->describe(out);
  pthread_mutex_unlock(&instance_mutex);
  return is_open;
}

std::uint8_t LiveDevice::prefix_bits_of(const IpAddress& address) const {
  for (const IpPrefix& given : config_.addresses)
    if (given.address == address) return given.prefix_bits;
  // What a link chooses by itself is in 198.18.0.0/15 (RFC 2544) and fd00::/64.
  return address.is_v4() ? 15 : 64;
}

void LiveDevice::describe(DeviceView* out) const {
  const PortAttributes port = device_->port_attributes();
  *out = {};
  out->rows = static_cast<std::uint32_t>(std::min(port.addresses.size(), DeviceView::kMostRows));
  std::copy_n(port.addresses.begin(), out->rows, out->gids.begin());
  for (std::uint32_t i = 0; i < out->rows; ++i) out->prefix_bits[i] = prefix_bits_of(out->gids[i]);
  out->mac = port.mac;
  out->link_up = port.link_up;
  const auto* words = reinterpret_cast<const std::uint64_t*>(counters_);
  for (std::size_t i = 0; i < out->counters.size(); ++i)
    out->counters[i] = __atomic_load_n(words + i, __ATOMIC_RELAXED);
}

void LiveDevice::make_connection_manager() {
  const PortAttributes port = port_->attributes();
  // The port's EUI-64, from its MAC (RFC 4291, appendix A).
  const auto& mac = port.mac.bytes;
  std::uint64_t guid = 0;
  for (const int byte : {mac[0] ^ 2, +mac[1], +mac[2], 0xff, 0xfe, +mac[3], +mac[4], +mac[5]})
    guid = guid << 8 | static_cast<std::uint8_t>(byte);
  cm_transport_ = std::make_unique<cm::GsiTransport>(device_->worker().gsi());
  cm_ = std::make_unique<cm::ConnectionManager>(
      *cm_transport_, *entropy_, *counters_,
      cm::ManagerConfig{.ca_guid = guid, .path_mtu = device_->active_mtu(), .id_block = port.qpn_block});
  cm_transport_->serve(*cm_);
}

LiveDevice::CmCall::CmCall(LiveDevice& live) : now(live_now()), live_(live) { live_.device_->worker().baton().lock(); }

LiveDevice::CmCall::~CmCall() {
  // Whoever turns the worker otherwise: the process may be about to end, as after a rejection.
  live_.wake_sleeper(live_.turn_holding_baton(TurnReason::kPost));
}

bool LiveDevice::start_thread() {
  // The application's signals are for its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, thread_main, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    std::fprintf(stderr, "rocinante: no background thread: %s\n", std::strerror(error));
    errno = error;
    return false;
  }
  thread_started_ = true;
  pthread_setname_np(thread_, "roci-background");
  return true;
}

void LiveDevice::stop_thread() {
  if (!thread_started_) return;
  stop_.store(true, std::memory_order_seq_cst);
  port_->wake();
  pthread_join(thread_, nullptr);
  thread_started_ = false;
}

void* LiveDevice::thread_main(void* self) {
  // Faults of user memory are the one kind of signal that this thread must take.
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  // Paced QPs wait for times a few microseconds off; by default a sleep may be 50 us longer than asked for.
  prctl(PR_SET_TIMERSLACK, 1);
  static_cast<LiveDevice*>(self)->run();
  return nullptr;
}

TurnResult LiveDevice::turn_holding_baton(TurnReason reason) {
  Worker& worker = device_->worker();
  TurnResult result = worker.turn(live_now(), reason);
  worker.baton().unlock();
  // Whoever posted while the baton was held could not take it: their QPs are on the list, and are ours to serve.
  for (std::uint32_t i = 1; i < kTurnsPerProgress && worker.has_rung() && worker.baton().try_lock(); ++i) {
    result = worker.turn(live_now(), reason);
    worker.baton().unlock();
  }
  return result;
}

void LiveDevice::progress(TurnReason reason) {
  if (mode_ == ProgressMode::kThread) {
    if (reason == TurnReason::kPost && asleep_until_ps_.load(std::memory_order_seq_cst) != INT64_MIN) port_->wake();
    return;
  }
  thread_local std::uint32_t busy_tries = 0;
  if (!device_->worker().baton().try_lock()) {
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

/// A caller that posts may not come back: what its turn left undone, and the deadlines it made, are the background
/// thread's.
void LiveDevice::wake_sleeper(const TurnResult& result) {
  const std::int64_t until = asleep_until_ps_.load(std::memory_order_seq_cst);
  if (until == INT64_MIN) return;
  if (result.more_to_do || result.waits_for_room || result.next_deadline.ps < until) port_->wake();
}

/// Nothing if another thread has the baton.
std::optional<TurnResult> LiveDevice::turn_in_background() {
  if (!device_->worker().baton().try_lock()) return std::nullopt;
  return turn_holding_baton(TurnReason::kBackground);
}

bool LiveDevice::callers_turn(Instant now) const {
  const Instant last_poll{last_poll_ps_.load(std::memory_order_relaxed)};
  return last_poll.ps != INT64_MIN && now - last_poll < kCallerRecent;
}

void LiveDevice::run() {
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
      __builtin_ia32_pause();
    } else {
      // On a core shared with a busy application, looking only keeps that application from running.
      if (mode_ == ProgressMode::kAuto) spin_ = {spin_.ps / 2};
      slept = true;
      sleep(now, result.value_or(TurnResult{.at = now}));
      now = live_now();
    }
  }
}

void LiveDevice::spin_longer() {
  if (mode_ != ProgressMode::kInline) spin_ = std::min(kLongestSpin, std::max(spin_ + spin_, kProbeSpin));
}

/// Callers turn the worker: this thread only makes sure that somebody still does, and answers a peer that rings because
/// the caller has not been seen for a while.
void LiveDevice::nap_beside_callers(Instant now) {
  asleep_until_ps_.store((now + kNapWhileCallersTurn).ps, std::memory_order_seq_cst);
  port_->prepare_wait(false);
  const bool rung = port_->wait(kNapWhileCallersTurn);
  asleep_until_ps_.store(INT64_MIN, std::memory_order_seq_cst);
  if (rung) turn_in_background();
}

/// Somebody else has the baton; the last look may have been too early. What arrives meanwhile is theirs, and need not
/// ring.
void LiveDevice::nap_beside_turn(Duration at_most) {
  port_->cancel_wait();
  port_->prepare_wait(false);
  port_->wait(std::min(at_most, kNapBesideTurn));
}

void LiveDevice::sleep(Instant now, const TurnResult& result) {
  const Instant until = std::min(now + (result.waits_for_room ? kNapForRoom : kLongestSleep), result.next_deadline);
  if (until <= now) return;
  asleep_until_ps_.store(until.ps, std::memory_order_seq_cst);
  port_->prepare_wait(!result.waits_for_room);
  // What was posted or arrived before this was said found nobody asleep to wake: one more turn looks for it.
  const std::optional<TurnResult> last_look = turn_in_background();
  bool rung = false;
  if (!last_look.has_value()) {
    nap_beside_turn(until - now);
  } else if (!last_look->worked() && last_look->next_deadline >= until && !stop_.load(std::memory_order_seq_cst)) {
    rung = port_->wait(until - now);
  } else {
    port_->cancel_wait();
  }
  asleep_until_ps_.store(INT64_MIN, std::memory_order_seq_cst);
  // Rung often: looking a little before sleeping may be worth another try.
  if (!rung || mode_ != ProgressMode::kAuto || ++rings_since_probe_ < kRingsPerProbe) return;
  rings_since_probe_ = 0;
  spin_ = std::max(spin_, kProbeSpin);
}

}  // namespace roci
