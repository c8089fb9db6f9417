// From a link's name to its port, with faults and a capture around it if they are wanted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "drivers/live/live_config.h"
#include "drivers/live/stack_file.h"
#include "stack/base/counters.h"
#include "stack/engine/port.h"

namespace roci {

/// What one worker has of the link.
struct OpenedPort {
  std::unique_ptr<Port> port;
  Counters* counters = nullptr;  ///< in memory that others can see, for the life of the port
};

struct OpenedLink {
  std::unique_ptr<StackFile> file;  ///< of a link that has no memory of its own for counters; outlives the ports
  std::vector<OpenedPort> ports;    ///< one for each worker; none, with errno, on failure
};

/// On failure `*error` says why.
OpenedLink open_link(const LiveConfig& config, std::string* error);

}  // namespace roci
