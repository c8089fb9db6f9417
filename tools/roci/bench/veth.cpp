#include "tools/roci/bench/veth.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace roci::bench {
namespace {

constexpr Duration kAtMost = seconds(10);

void ip(Command arguments) {
  arguments.insert(arguments.begin(), "ip");
  run_to_end(arguments, kAtMost);
}

}  // namespace

VethPair::VethPair(unsigned mtu_bytes)
    : server_(fmt::format("roci-bench-{}-{}-server", getpid(), mtu_bytes)),
      client_(fmt::format("roci-bench-{}-{}-client", getpid(), mtu_bytes)) {
  if (geteuid() != 0) throw Absence("only root may make network namespaces");
  if (!is_installed("ip")) throw Absence("ip is not installed (package iproute2)");
  try {
    make(mtu_bytes);
  } catch (const Failure& failure) {
    remove();
    throw Absence(failure.what());
  } catch (...) {
    remove();
    throw;
  }
}

VethPair::~VethPair() { remove(); }

void VethPair::make(unsigned mtu_bytes) const {
  const std::string mtu = fmt::format("{}", mtu_bytes);
  ip({"netns", "add", server_});
  ip({"netns", "add", client_});
  ip({"link", "add", kInterface, "mtu", mtu, "netns", client_, "type", "veth", "peer", "name", kInterface, "mtu", mtu,
      "netns", server_});
  for (const auto& [name, address] : {std::pair{&client_, kClientAddress}, std::pair{&server_, kServerAddress}}) {
    ip({"-n", *name, "address", "add", fmt::format("{}/30", address), "dev", kInterface});
    ip({"-n", *name, "link", "set", kInterface, "up"});
    ip({"-n", *name, "link", "set", "lo", "up"});
  }
}

void VethPair::remove() const noexcept {
  // Not by Child, which does not start while the user ends the run. A namespace that is not there is none to remove.
  for (const std::string* name : {&server_, &client_}) {
    const std::string command = fmt::format("ip netns delete {} 2>/dev/null", *name);
    [[maybe_unused]] const int status = std::system(command.c_str());
  }
}

}  // namespace roci::bench
