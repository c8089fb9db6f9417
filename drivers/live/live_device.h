// The process around the stack: one open device with its link, its clock and its background thread, shared by all
// contexts of the process. This is what the verbs shim opens.
#pragma once

#include <memory>
#include <string>

#include "stack/control/device.h"

namespace roci {

/// The device's settings, from ROCI_* (set by `roci run`): link, addresses, MTU, progress, capture.
struct LiveConfig {
  std::string device_name = "roci0";
  std::string link = "cable:default";
  std::string addresses;  ///< comma-separated A/LEN; empty: the link's own choice
  std::string host;
  std::string capture;
  std::string progress = "auto";
  std::uint32_t mtu_bytes = 4096;
};

/// Reads and checks the environment. On an error returns false and writes one line that names the variable, the value
/// and what is allowed.
bool read_live_config(LiveConfig* config, std::string* error);

class LiveDevice {
 public:
  /// Opens the process's device, or takes another reference to it. Null with errno on failure; the reason goes to
  /// stderr. After a fork the child must not use it: see detached().
  static LiveDevice* acquire(EventSink& events);
  void release();

  Device& device();
  /// True in a child of the process that opened the device.
  bool detached() const;

  /// Turns the worker once in the caller's thread if the baton is free.
  void progress(TurnReason reason);
};

}  // namespace roci
