#include "drivers/dpdk/dpdk_port.h"

#include <poll.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "drivers/dpdk/eal.h"
#include "drivers/dpdk/gid_table.h"
#include "stack/wire/headers_l3.h"

namespace roci::dpdk {
namespace {

/// Where nothing tells that a frame has arrived, this is how long the background thread may leave it unseen.
constexpr Duration kLongestNap = microseconds(500);
/// How often the kernel is asked again for a neighbour that it has not found.
constexpr Duration kLookInterval = milliseconds(10);
/// A connection is set up behind it: worth some patience.
constexpr int kFirstLooks = 50;
/// How long frames for a neighbour that is being looked for do not count as lost. A kernel may need some seconds: an
/// interface that has just come up asks nobody before its own IPv6 address is known to be unique.
constexpr Duration kNeighbourPatience = seconds(3);
/// The kernel sends nothing to them itself, and would not notice that they have moved.
constexpr Duration kUseInterval = seconds(5);
constexpr timespec kFirstLookPause{.tv_sec = 0, .tv_nsec = 2'000'000};
constexpr std::size_t kMostArrivals = 8;

}  // namespace

struct DpdkPort::DpdkRoute : Route {
  IpAddress destination;
  std::optional<IpAddress> next_hop;  ///< nothing for this device itself, and where there is no way
  std::uint32_t users = 0;
  bool is_self = false;
  bool is_group = false;
  bool is_resolved = false;
  Instant wanted_since = kNever;  ///< since the first frame that found it unresolved
};

DpdkPort::DpdkPort(DpdkCounters& counters) : counters_(counters) {}

std::unique_ptr<DpdkPort> DpdkPort::open(const DpdkLinkConfig& config, std::string* driver, std::string* error) {
  if (!start_eal(config.kind == "pci", error)) {
    errno = EIO;
    return nullptr;
  }
  std::unique_ptr<DpdkPort> port(new DpdkPort(*config.counters));
  port->bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (!port->open_netdev(config, driver, error)) return nullptr;
  return port;
}

bool DpdkPort::open_netdev(const DpdkLinkConfig& config, std::string* driver, std::string* error) {
  if (!kernel_.open(config.name, error)) return false;
  const std::optional<InterfaceState> state = kernel_.read_state();
  if (!state.has_value()) {
    *error = std::string("rtnetlink: ") + std::strerror(errno);
    return false;
  }
  state_ = *state;
  follows_addresses_ = config.addresses.empty();
  gids_ = follows_addresses_ ? state_.addresses : config.addresses;
  netdev_ = Netdev::open(config.name, config.driver, state_, error);
  if (netdev_ == nullptr) return false;
  device_ = &netdev_->device();
  *driver = netdev_->description();
  return true;
}

DpdkPort::~DpdkPort() {
  if (device_ != nullptr) {
    rx_release();
    flush();
    for (FrameQueue* queue : {&to_device_, &to_self_})
      for (; queue->size() > 0; queue->pop()) rte_pktmbuf_free(queue->front());
    device_->free(reserved_.data(), reserved_count_);
  }
  if (bell_ >= 0) ::close(bell_);
}

PortAttributes DpdkPort::attributes() const {
  constexpr std::uint64_t kAssumedSpeed = 10'000'000'000;
  return {.mac = state_.mac,
          .addresses = gids_,
          .link_mtu_bytes = std::min(state_.mtu_bytes, netdev_->most_mtu_bytes()),
          .speed_bps = kAssumedSpeed,
          .link_up = state_.is_up};
}

void DpdkPort::resolve(DpdkRoute& route) {
  EthernetHeader header{.source = state_.mac,
                        .ether_type = route.destination.is_v4() ? kEtherTypeIpv4 : kEtherTypeIpv6};
  route.is_self = std::find(gids_.begin(), gids_.end(), route.destination) != gids_.end();
  route.is_resolved = route.is_self;
  route.next_hop = route.is_self ? std::nullopt : kernel_.next_hop(route.destination);
  if (route.is_self) {
    header.destination = state_.mac;
  } else if (route.next_hop.has_value()) {
    if (const auto mac = kernel_.resolve(*route.next_hop); mac.has_value()) {
      header.destination = *mac;
      route.is_resolved = true;
    }
  }
  if (route.is_resolved) route.wanted_since = kNever;
  header.write(route.l2.data());
}

Route* DpdkPort::acquire_route(const IpAddress& destination, Qpn) {
  for (const auto& route : routes_) {
    if (route->destination != destination) continue;
    ++route->users;
    return route.get();
  }
  auto& route = *routes_.emplace_back(std::make_unique<DpdkRoute>());
  route.destination = destination;
  route.users = 1;
  resolve(route);
  for (int look = 0; look < kFirstLooks && !route.is_resolved; ++look) {
    nanosleep(&kFirstLookPause, nullptr);
    resolve(route);
  }
  return &route;
}

void DpdkPort::release_route(Route* route) {
  auto* ours = static_cast<DpdkRoute*>(route);
  if (--ours->users == 0) std::erase_if(routes_, [ours](const auto& entry) { return entry.get() == ours; });
}

/// An interface that is gone is down.
void DpdkPort::take_state(std::optional<InterfaceState> state) {
  if (!state.has_value()) {
    state = state_;
    state->is_up = false;
  }
  if (*state == state_) return;
  if (state->mac != state_.mac) netdev_->set_mac(state->mac);
  state_ = *std::move(state);
  if (follows_addresses_) update_gids(gids_, state_.addresses);
  is_changed_ = true;
}

/// What the kernel changed, and the neighbours that it did not know yet.
void DpdkPort::follow_kernel(Instant now) {
  if (now < next_look_) return;
  next_look_ = now + kLookInterval;
  const bool changed = kernel_.clear_changes();
  counters_.port_kernel_changes += changed ? 1 : 0;
  if (changed) take_state(kernel_.read_state());
  for (const auto& route : routes_)
    if (changed || !route->is_resolved) resolve(*route);
  if (now < next_use_) return;
  next_use_ = now + kUseInterval;
  for (const auto& route : routes_)
    if (route->next_hop.has_value()) kernel_.use(*route->next_hop);
}

void DpdkPort::begin_turn(Instant now, TurnReason) {
  now_ = now;
  follow_kernel(now);
}

bool DpdkPort::peer_stalled(const Route& route) {
  const auto& ours = static_cast<const DpdkRoute&>(route);
  return !ours.is_resolved && ours.wanted_since != kNever && now_ - ours.wanted_since < kNeighbourPatience;
}

void DpdkPort::end_turn(Instant) { flush(); }

bool DpdkPort::take_change() { return std::exchange(is_changed_, false); }

void DpdkPort::flush() {
  while (to_device_.size() > 0) {
    const std::span<rte_mbuf*> row = to_device_.row();
    const std::uint16_t sent = rte_eth_tx_burst(device_->id(), 0, row.data(), static_cast<std::uint16_t>(row.size()));
    to_device_.pop(sent);
    counters_.port_tx_frames += sent;
    if (sent == row.size()) continue;
    ++counters_.port_tx_full;
    return;
  }
}

std::size_t DpdkPort::rx_burst(std::span<RxFrame> out) {
  const auto wanted = static_cast<std::uint16_t>(std::min<std::size_t>(out.size(), kBurst));
  received_count_ = 0;
  for (; received_count_ < wanted && to_self_.size() > 0; to_self_.pop())
    received_[received_count_++] = to_self_.front();
  const std::uint32_t from_self = received_count_;
  received_count_ += rte_eth_rx_burst(device_->id(), 0, received_.data() + received_count_,
                                      static_cast<std::uint16_t>(wanted - received_count_));
  counters_.port_rx_frames += received_count_ - from_self;
  for (std::uint32_t i = 0; i < received_count_; ++i)
    out[i] = {.data = rte_pktmbuf_mtod(received_[i], const std::byte*), .size = rte_pktmbuf_data_len(received_[i])};
  return received_count_;
}

void DpdkPort::rx_release() { device_->free(received_.data(), std::exchange(received_count_, 0)); }

std::size_t DpdkPort::tx_reserve(Route& route, std::span<TxSlot> out) {
  const bool is_self = static_cast<DpdkRoute&>(route).is_self;
  if (!is_self && to_device_.room() < kBurst) flush();
  const std::uint32_t room = (is_self ? to_self_ : to_device_).room();
  const auto wanted = static_cast<std::uint32_t>(std::min<std::size_t>({out.size(), kBurst, room}));
  if (wanted == 0) return 0;
  if (!device_->allocate(reserved_.data(), wanted)) {
    ++counters_.port_no_buffers;
    return 0;
  }
  reserved_count_ = wanted;
  for (std::uint32_t i = 0; i < wanted; ++i) out[i].data = rte_pktmbuf_mtod(reserved_[i], std::byte*);
  return wanted;
}

void DpdkPort::tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) {
  auto& ours = static_cast<DpdkRoute&>(route);
  const std::uint32_t reserved = std::exchange(reserved_count_, 0);
  const auto count = ours.is_resolved ? static_cast<std::uint32_t>(frame_bytes.size()) : 0;
  if (ours.is_group && std::find(groups_.begin(), groups_.end(), ours.destination) != groups_.end())
    copy_to_self(frame_bytes);
  FrameQueue& queue = ours.is_self ? to_self_ : to_device_;
  for (std::uint32_t i = 0; i < count; ++i) {
    rte_mbuf* frame = reserved_[i];
    frame->data_len = static_cast<std::uint16_t>(frame_bytes[i]);
    frame->pkt_len = frame_bytes[i];
    queue.push(frame);
  }
  if (ours.is_self) counters_.port_self_frames += count;
  if (!ours.is_resolved) {
    counters_.port_tx_unresolved_drops += frame_bytes.size();
    if (ours.wanted_since == kNever) ours.wanted_since = now_;
  }
  device_->free(reserved_.data() + count, reserved - count);
}

void DpdkPort::prepare_wait(bool deep) { is_deep_ = deep; }

bool DpdkPort::wait(Duration at_most) {
  std::array<pollfd, kMostArrivals + 2> fds{{{.fd = bell_, .events = POLLIN, .revents = 0}}};
  nfds_t count = 1;
  if (is_deep_) {
    for (const int fd : netdev_->arrivals()) fds[count++] = {.fd = fd, .events = POLLIN, .revents = 0};
    if (count > 1) fds[count++] = {.fd = kernel_.changes_fd(), .events = POLLIN, .revents = 0};
  }
  const std::int64_t nap_ns = (count == 1 ? std::min(at_most, kLongestNap) : at_most).ns();
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const timespec nap{.tv_sec = std::max<std::int64_t>(nap_ns, 0) / kNsPerSecond,
                     .tv_nsec = std::max<std::int64_t>(nap_ns, 0) % kNsPerSecond};
  if (ppoll(fds.data(), count, &nap, nullptr) <= 0) return false;
  if (fds[0].revents != 0) silence_bell();
  return true;
}

void DpdkPort::silence_bell() {
  rung_.store(false, std::memory_order_seq_cst);
  eventfd_t count = 0;
  eventfd_read(bell_, &count);
}

/// A ring that comes after this look ends the next wait() at once, and that one hears it.
void DpdkPort::cancel_wait() {
  if (rung_.load(std::memory_order_seq_cst)) silence_bell();
}

void DpdkPort::wake() {
  rung_.store(true, std::memory_order_seq_cst);
  eventfd_write(bell_, 1);
}

}  // namespace roci::dpdk

extern "C" __attribute__((visibility("default"))) roci::Port* roci_open_dpdk_port(const roci::DpdkLinkConfig& config,
                                                                                  std::string* driver,
                                                                                  std::string* error) {
  return roci::dpdk::DpdkPort::open(config, driver, error).release();
}
