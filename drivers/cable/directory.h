// Who is on the cables of this user, and what they have counted: for tools that only look.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "drivers/cable/cable_counters.h"
#include "stack/base/counters.h"
#include "stack/wire/address.h"

namespace roci {

/// One end as it was when looked at. The text is as the process wrote it: bytes, not necessarily UTF-8.
struct CableEnd {
  std::string cable;
  std::uint32_t index = 0;
  std::int32_t pid = 0;
  std::string program;
  std::string device_name;
  std::string host;
  std::vector<IpAddress> addresses;
  std::array<std::uint64_t, kCounterInfos.size()> stack_counters{};
  QpRates rates{};
  std::array<std::uint64_t, kCableCounterInfos.size()> cable_counters{};
};

/// The live ends of all cables, by cable and index. Disturbs nobody: it opens for reading and takes no lock. Not for a
/// process that is on a cable itself, whose locks it would drop (see SharedFile).
std::vector<CableEnd> list_cable_ends();

}  // namespace roci
