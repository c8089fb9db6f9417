#include "drivers/live/live_device.h"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>

#include "drivers/live/clock.h"
#include "drivers/live/fault_handler.h"
#include "drivers/live/link.h"

namespace roci {
namespace {

/// A paced QP may be served this late, by a thread that slept, without losing rate.
constexpr Duration kPacingCatchUp = microseconds(50);

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
    : config_(config), generation_(at_generation) {}

LiveDevice::~LiveDevice() {
  for (const auto& worker : workers_) worker->stop();
  cm_transport_.reset();
  cm_.reset();
  workers_.clear();
  device_.reset();
  ports_.clear();
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
  for (const auto& worker : device->workers_) worker->stop();
  if (!device->take_batons_for_good()) return;
  // Peers hear that their connections end here, as they do from a kernel when a process ends.
  device->cm_->destroy_all(live_now());
  for (const auto& worker : device->workers_) worker->worker().turn(live_now(), TurnReason::kPost);
  for (const auto& port : device->ports_) port->close();
  if (device->file_ != nullptr) device->file_->remove();
}

/// Whichever thread still polls finds them taken. A thread that was interrupted in the middle of a turn to end the
/// process will never give its baton back: false, and the next one on the cable clears up.
bool LiveDevice::take_batons_for_good() {
  constexpr int kTries = 100;
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 1'000'000};
  for (const auto& worker : workers_) {
    int tries = 0;
    while (!worker->worker().baton().try_lock()) {
      if (++tries == kTries) return false;
      nanosleep(&kPause, nullptr);
    }
  }
  return true;
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
  if (link.ports.empty()) {
    const int reason = errno;
    std::fprintf(stderr, "rocinante: %s\n", error.c_str());
    errno = reason;
    return nullptr;
  }
  made->file_ = std::move(link.file);
  std::vector<WorkerSeat> seats;
  for (OpenedPort& opened : link.ports) {
    seats.push_back({.port = opened.port.get(), .counters = opened.counters});
    made->counters_.push_back(opened.counters);
    made->ports_.push_back(std::move(opened.port));
  }
  made->entropy_ = std::make_unique<SystemEntropy>();
  DeviceConfig device_config;
  device_config.cc = config.cc;
  device_config.egress = config.egress;
  device_config.egress.marks_data = config.cc.make != nullptr || config.egress.pfc != 0;
  device_config.egress.catch_up = kPacingCatchUp;
  device_config.most_mtu = mtu_code(config.mtu_bytes);
  made->events_ = std::make_unique<Events>(events, *made->ports_.front(), made->file_.get());
  made->device_ = std::make_unique<Device>(seats, *made->events_, *made->entropy_, device_config);
  made->make_connection_manager();
  if (!made->start_workers()) return nullptr;
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
  for (const Counters* counters : counters_) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(counters);
    for (std::size_t i = 0; i < out->counters.size(); ++i)
      out->counters[i] += __atomic_load_n(words + i, __ATOMIC_RELAXED);
  }
}

void LiveDevice::make_connection_manager() {
  const PortAttributes port = ports_.front()->attributes();
  // The port's EUI-64, from its MAC (RFC 4291, appendix A).
  const auto& mac = port.mac.bytes;
  std::uint64_t guid = 0;
  for (const int byte : {mac[0] ^ 2, +mac[1], +mac[2], 0xff, 0xfe, +mac[3], +mac[4], +mac[5]})
    guid = guid << 8 | static_cast<std::uint8_t>(byte);
  cm_transport_ = std::make_unique<cm::GsiTransport>(device_->worker().gsi());
  cm_ = std::make_unique<cm::ConnectionManager>(
      *cm_transport_, *entropy_, *counters_.front(),
      cm::ManagerConfig{.ca_guid = guid, .path_mtu = device_->active_mtu(), .id_block = port.qpn_block});
  cm_transport_->serve(*cm_);
}

LiveDevice::CmCall::CmCall(LiveDevice& live) : now(live_now()), live_(live) { live_.device_->worker().baton().lock(); }

LiveDevice::CmCall::~CmCall() {
  // Whoever turns the worker otherwise: the process may be about to end, as after a rejection.
  live_.workers_.front()->turn_for_caller();
}

bool LiveDevice::start_workers() {
  const ProgressMode mode = progress_mode(config_.progress);
  for (std::uint32_t i = 0; i < device_->workers(); ++i) {
    const auto core = i < config_.cores.size() ? std::optional(config_.cores[i]) : std::nullopt;
    workers_.push_back(std::make_unique<LiveWorker>(device_->worker(i), mode, core));
    const int error = workers_.back()->start();
    if (error == 0) continue;
    const std::string where = core.has_value() ? " on core " + std::to_string(*core) : "";
    std::fprintf(stderr, "rocinante: no background thread%s: %s\n", where.c_str(), std::strerror(error));
    errno = error;
    return false;
  }
  return true;
}

}  // namespace roci
