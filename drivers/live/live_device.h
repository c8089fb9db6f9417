// The process around the stack: one open device with its link, its clock and its background thread, shared by all
// contexts of the process. This is what the verbs shim opens.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "drivers/live/device_view.h"
#include "drivers/live/live_config.h"
#include "drivers/live/stack_file.h"
#include "stack/base/counters.h"
#include "stack/cm/connection_manager.h"
#include "stack/cm/gsi_transport.h"
#include "stack/control/device.h"

namespace roci {

/// Who turns the worker (design: callers inline, a background thread for the passive side).
enum class ProgressMode : std::uint8_t { kAuto, kInline, kThread };

class LiveDevice {
 public:
  /// Opens the process's device, or takes another reference to it. Null with errno on failure; the reason goes to
  /// stderr. `events` must outlive the device.
  static LiveDevice* acquire(EventSink& events);
  void release();
  /// The process is ending with the device still open, as programs do that do not destroy all they made: leaves the
  /// link in good order.
  static void leave_at_exit();

  /// What is told of the process's device from outside the data path. Any thread.
  static bool view(DeviceView* out);

  const LiveConfig& config() const { return config_; }
  Device& device() { return *device_; }
  /// True in a child of the process that opened the device: it must not be used there.
  bool detached() const { return generation_ != current_generation(); }

  /// Data path, any thread: after posting, or when a poll found nothing. Turns the worker once in the caller's thread
  /// if the baton is free.
  void progress(TurnReason reason);

  /// Any thread: a call of the communication manager. It has the worker's baton for as long as it lives; then what the
  /// manager has sent leaves.
  class CmCall {
   public:
    explicit CmCall(LiveDevice& live);
    ~CmCall();
    CmCall(const CmCall&) = delete;
    CmCall& operator=(const CmCall&) = delete;

    cm::ConnectionManager* operator->() { return live_.cm_.get(); }
    const Instant now;

   private:
    LiveDevice& live_;
  };

 private:
  class SystemEntropy;
  class Events;

  friend struct std::default_delete<LiveDevice>;

  LiveDevice(const LiveConfig& config, std::uint32_t generation);
  ~LiveDevice();
  LiveDevice(const LiveDevice&) = delete;
  LiveDevice& operator=(const LiveDevice&) = delete;

  static std::uint32_t current_generation();
  static LiveDevice* open(EventSink& events);
  void make_connection_manager();
  void describe(DeviceView* out) const;
  std::uint8_t prefix_bits_of(const IpAddress& address) const;
  bool start_thread();
  void stop_thread();
  static void* thread_main(void* self);

  // The background thread.
  void run();
  std::optional<TurnResult> turn_in_background();
  bool callers_turn(Instant now) const;
  void spin_longer();
  void nap_beside_callers(Instant now);
  void nap_beside_turn(Duration at_most);
  void sleep(Instant now, const TurnResult& result);

  TurnResult turn_holding_baton(TurnReason reason);
  void wake_sleeper(const TurnResult& result);

  const LiveConfig config_;
  const std::uint32_t generation_;
  ProgressMode mode_ = ProgressMode::kAuto;
  std::uint32_t references_ = 1;

  std::unique_ptr<StackFile> file_;
  std::unique_ptr<Port> port_;
  Counters* counters_ = nullptr;
  std::unique_ptr<SystemEntropy> entropy_;
  std::unique_ptr<Events> events_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<cm::GsiTransport> cm_transport_;
  std::unique_ptr<cm::ConnectionManager> cm_;

  pthread_t thread_{};
  bool thread_started_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> last_poll_ps_{INT64_MIN};     ///< when a caller last polled
  std::atomic<std::int64_t> asleep_until_ps_{INT64_MIN};  ///< background thread: INT64_MIN while awake
  Duration spin_{};                                       ///< background thread: how long it looks before it sleeps
  std::uint32_t rings_since_probe_ = 0;
};

}  // namespace roci
