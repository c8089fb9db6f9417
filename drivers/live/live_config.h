// The device's settings: what they are called, what they may be, and how the environment gives them. `roci run` checks
// with the same table what it puts into the environment, so a bad value is refused before the program starts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cc/congestion_control.h"
#include "stack/base/nearest_name.h"
#include "stack/egress/settings.h"
#include "stack/wire/address.h"

namespace roci {

/// An address with the length of its subnet's prefix, written A/LEN.
struct IpPrefix {
  IpAddress address;
  std::uint8_t prefix_bits = 0;  ///< of the address as written: at most 32 for IPv4, 128 for IPv6
  bool operator==(const IpPrefix&) const = default;
};

/// What a device is joined to, written KIND:NAME, an interface also netdev:NAME/DRIVER.
struct LinkName {
  std::string kind = "cable";
  std::string name = "default";
  std::string driver = "auto";
};

struct LiveConfig {
  std::string device_name = "roci0";
  LinkName link;
  std::vector<IpPrefix> addresses;   ///< empty: the link's own choice
  std::string host;                  ///< empty: the process is a host of its own
  std::string capture;               ///< path of a pcapng file; empty: none
  std::string faults;                ///< path of a fault script; empty: none
  std::string progress = "auto";     ///< auto, inline or thread
  std::vector<std::uint32_t> cores;  ///< one for each worker's own thread; empty: one worker, on any core
  std::uint32_t mtu_bytes = 4096;    ///< RoCE path MTU: payload of a packet
  CcSpec cc;
  egress::Settings egress;

  std::size_t workers() const { return cores.empty() ? 1 : cores.size(); }
};

/// One setting: --NAME of `roci run`, `NAME` in roci.toml, `variable` in the environment.
struct Setting {
  std::string_view name;
  const char* variable;
  std::string_view form;  ///< of its value, for people
  std::string_view description;
  bool is_list;  ///< takes several values, separated by commas
  /// Checks `value` and, if it is good, puts it into the config. Returns what is wrong with it, empty if nothing.
  std::string (*apply)(std::string_view value, LiveConfig* config);
};

std::span<const Setting> settings();

/// What is wrong with settings that are good each by itself; empty if nothing.
std::string check_together(const LiveConfig& config);

/// The environment as a function: null for a variable that is not set.
using Environment = std::function<const char*(const char*)>;

/// Applies the variables that are set and not empty. On an error returns false and writes one line that names the
/// variable, the value and what is allowed; `config` is then in part changed.
bool parse_live_config(const Environment& environment, LiveConfig* config, std::string* error);

/// The same for the environment of this process.
bool read_live_config(LiveConfig* config, std::string* error);

}  // namespace roci
