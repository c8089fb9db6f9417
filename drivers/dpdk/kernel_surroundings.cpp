// A port on a kernel interface: addresses, routes and neighbours are the kernel's.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "drivers/dpdk/gid_table.h"
#include "drivers/dpdk/netdev.h"
#include "drivers/dpdk/netlink.h"
#include "drivers/dpdk/surroundings.h"

namespace roci::dpdk {
namespace {

/// How often the kernel is asked for changes.
constexpr Duration kLookInterval = milliseconds(10);
/// The kernel sends nothing to the neighbours itself, and would not notice that they have moved.
constexpr Duration kUseInterval = seconds(5);

class KernelSurroundings : public Surroundings {
 public:
  explicit KernelSurroundings(DpdkCounters& counters) : counters_(counters) {}

  bool open(const DpdkLinkConfig& config, std::string* error) {
    if (!kernel_.open(config.name, error)) return false;
    const std::optional<InterfaceState> state = kernel_.read_state();
    if (!state.has_value()) {
      *error = std::string("rtnetlink: ") + std::strerror(errno);
      return false;
    }
    state_ = *state;
    follows_addresses_ = config.addresses.empty();
    attributes_.addresses = follows_addresses_ ? state_.addresses : config.addresses;
    netdev_ = Netdev::open(config.name, config.driver, state_, error);
    if (netdev_ == nullptr) return false;
    describe();
    return true;
  }

  Ethdev& device() override { return netdev_->device(); }
  std::string description() const override { return netdev_->description(); }

  bool follow(Instant now) override {
    if (now < next_look_) return false;
    next_look_ = now + kLookInterval;
    const bool changed = kernel_.clear_changes();
    counters_.port_kernel_changes += changed ? 1 : 0;
    if (changed) take_state(kernel_.read_state());
    if (now >= next_use_) {
      next_use_ = now + kUseInterval;
      for (const auto& [destination, next_hop] : next_hops_) kernel_.use(next_hop);
    }
    return changed;
  }

  std::optional<MacAddress> find(const IpAddress& destination, Instant) override {
    forget(destination);
    const std::optional<IpAddress> next_hop = kernel_.next_hop(destination);
    if (!next_hop.has_value()) return std::nullopt;
    next_hops_.emplace_back(destination, *next_hop);
    return kernel_.resolve(*next_hop);
  }

  void forget(const IpAddress& destination) override {
    std::erase_if(next_hops_, [&](const auto& entry) { return entry.first == destination; });
  }

  void set_membership(const IpAddress& group, bool joined) override { netdev_->set_membership(group, joined); }

  std::vector<int> doorbells() const override {
    std::vector<int> fds = netdev_->arrivals();
    if (!fds.empty()) fds.push_back(kernel_.changes_fd());
    return fds;
  }

 private:
  void describe() {
    constexpr std::uint64_t kAssumedSpeed = 10'000'000'000;
    attributes_.mac = state_.mac;
    attributes_.link_mtu_bytes = std::min(state_.mtu_bytes, netdev_->most_mtu_bytes());
    attributes_.speed_bps = kAssumedSpeed;
    attributes_.link_up = state_.is_up;
  }

  /// An interface that is gone is down.
  void take_state(std::optional<InterfaceState> state) {
    if (!state.has_value()) {
      state = state_;
      state->is_up = false;
    }
    if (*state == state_) return;
    if (state->mac != state_.mac) netdev_->set_mac(state->mac);
    state_ = *std::move(state);
    if (follows_addresses_) update_gids(attributes_.addresses, state_.addresses);
    describe();
    is_changed_ = true;
  }

  DpdkCounters& counters_;
  Netlink kernel_;
  InterfaceState state_;
  std::unique_ptr<Netdev> netdev_;
  bool follows_addresses_ = false;                          ///< the interface's are the GIDs
  std::vector<std::pair<IpAddress, IpAddress>> next_hops_;  ///< by destination
  Instant next_look_{};
  Instant next_use_{};
};

}  // namespace

std::unique_ptr<Surroundings> open_netdev(const DpdkLinkConfig& config, std::string* error) {
  auto made = std::make_unique<KernelSurroundings>(*config.counters);
  if (!made->open(config, error)) return nullptr;
  return made;
}

}  // namespace roci::dpdk
