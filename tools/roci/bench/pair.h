// A server and a client of a program like those of perftest, each under `roci run`, as a user would start them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tools/roci/bench/parse.h"
#include "tools/roci/bench/process.h"

namespace roci::bench {

/// Where the two ends run: commands that stand before theirs, the link, and how the client calls the server.
struct Place {
  Command server_prefix;
  Command client_prefix;
  std::string link;
  std::string address = "127.0.0.1";
};

/// On a cable of this process's own.
Place on_a_cable();

/// `program` listens on -p PORT, and talks to the address that comes last.
class Pair {
 public:
  /// Starts the server and waits until it listens, then the client. Throws Failure.
  Pair(const Place& place, const Command& program);

  /// Both end well. The client's output.
  std::string finish();
  /// The same, and how busy they were while frames passed on the cable; nothing if that was too short to tell.
  std::string finish(std::optional<Load>* load);

 private:
  std::unique_ptr<Child> server_;
  std::unique_ptr<Child> client_;
};

// One end alone; the server listens when it is there.
std::unique_ptr<Child> start_server(const Place& place, const Command& program, unsigned port);
std::unique_ptr<Child> start_client(const Place& place, const Command& program, unsigned port);

/// RoCE packets that the stack of the process has sent on a cable; nothing while it is on none.
std::optional<std::uint64_t> packets_sent(pid_t pid);

}  // namespace roci::bench
