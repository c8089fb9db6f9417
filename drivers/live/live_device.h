// The process around the stack: one open device with its link, its clock and its background thread, shared by all
// contexts of the process. This is what the verbs shim opens.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "drivers/live/device_view.h"
#include "drivers/live/live_config.h"
#include "drivers/live/live_worker.h"
#include "drivers/live/stack_file.h"
#include "stack/base/counters.h"
#include "stack/cm/connection_manager.h"
#include "stack/cm/gsi_transport.h"
#include "stack/control/device.h"

namespace roci {

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

  // Data path, any thread.
  /// After posting to the QP.
  void progress_posted(Qp& qp) { workers_[Device::worker_of(qp)]->progress(TurnReason::kPost); }
  /// When a poll found nothing. With several workers each has its own thread, so whose the completions are does not
  /// matter.
  void progress_polled() { workers_.front()->progress(TurnReason::kPoll); }

  /// Any thread: a call of the communication manager. It has the first worker's baton for as long as it lives; then
  /// what the manager has sent leaves.
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
  bool start_workers();
  bool take_batons_for_good();

  const LiveConfig config_;
  const std::uint32_t generation_;
  std::uint32_t references_ = 1;

  std::unique_ptr<StackFile> file_;
  std::vector<std::unique_ptr<Port>> ports_;  ///< of each worker
  std::vector<Counters*> counters_;           ///< of each worker
  std::unique_ptr<SystemEntropy> entropy_;
  std::unique_ptr<Events> events_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<cm::GsiTransport> cm_transport_;
  std::unique_ptr<cm::ConnectionManager> cm_;
  std::vector<std::unique_ptr<LiveWorker>> workers_;
};

}  // namespace roci
