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
/// How long frames wait for a neighbour that is being looked for. A kernel may need some seconds: an interface that has
/// just come up asks nobody before its own IPv6 address is known to be unique.
constexpr Duration kNeighbourPatience = seconds(3);
/// How often the neighbours that have not been found are asked for again.
constexpr Duration kLookInterval = milliseconds(2);
constexpr std::size_t kMostDoorbells = 8;

/// RoCE packets are UDP, and so is much else; all that a port without a kernel has to answer is not.
bool is_udp(const std::byte* frame, std::uint32_t bytes) {
  if (bytes < EthernetHeader::kSize + Ipv6Header::kSize) return false;
  const auto ether_type = load_be<std::uint16_t>(frame + 12);
  const std::size_t protocol_at = EthernetHeader::kSize + (ether_type == kEtherTypeIpv6 ? 6 : 9);
  return ether_type != kEtherTypeArp && frame[protocol_at] == std::byte{kIpProtocolUdp};
}

/// Of an IP packet without a tag.
std::optional<IpAddress> source_of(const std::byte* frame, std::uint32_t bytes) {
  if (bytes < EthernetHeader::kSize + Ipv6Header::kSize) return std::nullopt;
  const std::byte* l3 = frame + EthernetHeader::kSize;
  const auto ether_type = load_be<std::uint16_t>(frame + 12);
  if (ether_type == kEtherTypeIpv4) return IpAddress::v4(Ipv4Header::read(l3).source);
  if (ether_type == kEtherTypeIpv6) return Ipv6Header::read(l3).source;
  return std::nullopt;
}

}  // namespace

struct DpdkPort::DpdkRoute : Route {
  IpAddress destination;
  std::uint32_t users = 0;
  bool is_self = false;
  bool is_group = false;
  bool is_resolved = false;
  Instant wanted_since = kNever;  ///< since the first frame that found it unresolved
};

DpdkPort::DpdkPort(DpdkCounters& counters) : counters_(counters) {}

std::unique_ptr<DpdkPort> DpdkPort::open(const DpdkLinkConfig& config, std::string* driver, std::string* error) {
  if (!start_eal(config.kind == "pci" ? config.name : std::string(), error)) {
    errno = EIO;
    return nullptr;
  }
  std::unique_ptr<DpdkPort> port(new DpdkPort(*config.counters));
  port->bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  port->is_alone_ = config.kind != "netdev";
  port->around_ = port->is_alone_ ? open_own_device(config, error) : open_netdev(config, error);
  if (port->around_ == nullptr) return nullptr;
  port->device_ = &port->around_->device();
  port->doorbells_ = port->around_->doorbells();
  *driver = port->around_->description();
  return port;
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

PortAttributes DpdkPort::attributes() const { return around_->attributes(); }

bool DpdkPort::take_change() { return around_->take_change(); }

void DpdkPort::resolve(DpdkRoute& route) {
  const PortAttributes& own = around_->attributes();
  route.is_self = std::find(own.addresses.begin(), own.addresses.end(), route.destination) != own.addresses.end();
  route.is_group = route.destination.is_multicast();
  std::optional<MacAddress> mac = own.mac;
  if (route.is_group)
    mac = multicast_mac(route.destination);
  else if (!route.is_self)
    mac = around_->find(route.destination, now_);
  route.is_resolved = mac.has_value();
  if (mac.has_value())
    address(route, *mac);
  else
    has_unresolved_ = true;
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
  return &route;
}

void DpdkPort::release_route(Route* route) {
  auto* ours = static_cast<DpdkRoute*>(route);
  if (--ours->users != 0) return;
  around_->forget(ours->destination);
  std::erase_if(routes_, [ours](const auto& entry) { return entry.get() == ours; });
}

void DpdkPort::join_group(const IpAddress& group) {
  if (std::find(groups_.begin(), groups_.end(), group) == groups_.end()) around_->set_membership(group, true);
  groups_.push_back(group);
}

void DpdkPort::leave_group(const IpAddress& group) {
  groups_.erase(std::find(groups_.begin(), groups_.end(), group));
  if (std::find(groups_.begin(), groups_.end(), group) == groups_.end()) around_->set_membership(group, false);
}

/// What changed around the port, and the neighbours that were not known yet.
void DpdkPort::follow(Instant now) {
  const bool changed = around_->follow(now);
  const bool looks = has_unresolved_ && now >= next_look_;
  if (!changed && !looks) return;
  next_look_ = now + kLookInterval;
  has_unresolved_ = false;
  for (const auto& route : routes_)
    if (changed || !route->is_resolved) resolve(*route);
}

/// A neighbour that is not found may be heard: what came from its address can be answered the way it came.
void DpdkPort::hear_neighbours() {
  for (std::uint32_t i = 0; i < received_count_; ++i) {
    const auto* data = rte_pktmbuf_mtod(received_[i], const std::byte*);
    const std::optional<IpAddress> source = source_of(data, rte_pktmbuf_data_len(received_[i]));
    if (!source.has_value()) continue;
    for (const auto& route : routes_)
      if (!route->is_resolved && route->destination == *source) address(*route, EthernetHeader::read(data).source);
  }
}

void DpdkPort::address(DpdkRoute& route, const MacAddress& mac) {
  EthernetHeader{.destination = mac,
                 .source = around_->attributes().mac,
                 .ether_type = route.destination.is_v4() ? kEtherTypeIpv4 : kEtherTypeIpv6}
      .write(route.l2.data());
  route.is_resolved = true;
  route.wanted_since = kNever;
}

void DpdkPort::begin_turn(Instant now, TurnReason) {
  now_ = now;
  follow(now);
}

Instant DpdkPort::next_deadline() const { return around_->next_deadline(); }

bool DpdkPort::peer_stalled(const Route& route) {
  const auto& ours = static_cast<const DpdkRoute&>(route);
  return !ours.is_resolved && ours.wanted_since != kNever && now_ - ours.wanted_since < kNeighbourPatience;
}

/// Later on frames are dropped, so that whoever sends to nobody gets to know.
bool DpdkPort::waits_for_neighbour(DpdkRoute& route) {
  if (route.wanted_since == kNever) route.wanted_since = now_;
  return now_ - route.wanted_since < kNeighbourPatience;
}

void DpdkPort::end_turn(Instant) {
  if (is_alone_) send_answers();
  flush();
}

/// ARP, neighbour discovery and echo, as far as there is room.
void DpdkPort::send_answers() {
  while (to_device_.room() > 0) {
    const std::span<const std::byte> frame = around_->next_frame();
    rte_mbuf* buffer = nullptr;
    if (frame.empty() || !device_->allocate(&buffer, 1)) return;
    std::memcpy(rte_pktmbuf_mtod(buffer, std::byte*), frame.data(), frame.size());
    buffer->data_len = static_cast<std::uint16_t>(frame.size());
    buffer->pkt_len = buffer->data_len;
    to_device_.push(buffer);
  }
}

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
  if (is_alone_) take_answers(from_self);
  if (has_unresolved_) hear_neighbours();
  for (std::uint32_t i = 0; i < received_count_; ++i)
    out[i] = {.data = rte_pktmbuf_mtod(received_[i], const std::byte*), .size = rte_pktmbuf_data_len(received_[i])};
  return received_count_;
}

/// Takes out, from the frame of that number on, what is not for the stack. A frame in several buffers is not read.
void DpdkPort::take_answers(std::uint32_t first) {
  std::uint32_t kept = first;
  for (std::uint32_t i = first; i < received_count_; ++i) {
    rte_mbuf* frame = received_[i];
    const auto* data = rte_pktmbuf_mtod(frame, const std::byte*);
    const std::uint32_t bytes = rte_pktmbuf_data_len(frame);
    if (is_udp(data, bytes) || !around_->take({data, bytes}, now_))
      received_[kept++] = frame;
    else
      rte_pktmbuf_free(frame);
  }
  received_count_ = kept;
}

void DpdkPort::rx_release() { device_->free(received_.data(), std::exchange(received_count_, 0)); }

std::size_t DpdkPort::tx_reserve(Route& route, std::span<TxSlot> out) {
  auto& ours = static_cast<DpdkRoute&>(route);
  if (!ours.is_resolved && waits_for_neighbour(ours)) return 0;
  const bool is_self = ours.is_self;
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
  }
  device_->free(reserved_.data() + count, reserved - count);
}

/// Of the reservation, to a group that this port hears too: the network does not bring it back. Without room there is
/// no copy, as if it had been lost.
void DpdkPort::copy_to_self(std::span<const std::uint32_t> frame_bytes) {
  for (std::size_t i = 0; i < frame_bytes.size() && to_self_.room() > 0; ++i) {
    rte_mbuf* copy = nullptr;
    if (!device_->allocate(&copy, 1)) return;
    std::memcpy(rte_pktmbuf_mtod(copy, std::byte*), rte_pktmbuf_mtod(reserved_[i], const std::byte*), frame_bytes[i]);
    copy->data_len = static_cast<std::uint16_t>(frame_bytes[i]);
    copy->pkt_len = frame_bytes[i];
    to_self_.push(copy);
    ++counters_.port_self_frames;
  }
}

void DpdkPort::prepare_wait(bool deep) { is_deep_ = deep; }

bool DpdkPort::wait(Duration at_most) {
  std::array<pollfd, kMostDoorbells + 1> fds{{{.fd = bell_, .events = POLLIN, .revents = 0}}};
  nfds_t count = 1;
  if (is_deep_)
    for (const int fd : doorbells_) fds[count++] = {.fd = fd, .events = POLLIN, .revents = 0};
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
