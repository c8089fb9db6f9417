#include "drivers/sim/sim_port.h"

#include <algorithm>

#include "stack/base/assert.h"

namespace roci::sim {
SimPort::SimPort(Network& network, const PortPlace& place)
    : network_(network), place_(place), number_(static_cast<std::uint32_t>(network.ports().size())) {
  network.add_port(this);
}

SimPort::~SimPort() {
  for (const PooledFrame& frame : arrived_) network_.free(frame);
}

PortAttributes SimPort::attributes() const { return host_attributes(place_, 100'000'000'000); }

/// Of the ports of the host that has the address, the one that has the QPN, or the first.
std::uint32_t SimPort::find_port(const IpAddress& address, Qpn qpn) const {
  constexpr std::uint32_t kBlockShift = 18;
  const std::span<SimPort* const> ports = network_.ports();
  const std::uint32_t host = host_of(address, static_cast<std::uint32_t>(ports.size()));
  std::uint32_t found = kNowhere;
  for (std::uint32_t i = 0; i < ports.size(); ++i) {
    if (ports[i]->place_.host != host) continue;
    if (ports[i]->place_.qpn_block() == qpn.value >> kBlockShift) return i;
    if (found == kNowhere) found = i;
  }
  return found;
}

Route* SimPort::acquire_route(const IpAddress& destination, Qpn dest_qpn) {
  auto route = std::make_unique<SimRoute>();
  route->peer = find_port(destination, dest_qpn);
  const bool is_known = route->peer != kNowhere;
  const MacAddress to = is_known ? mac_address(network_.ports()[route->peer]->place_.host) : MacAddress{};
  fill_route(*route, to, place_.host, destination.is_v4());
  routes_.push_back(std::move(route));
  return routes_.back().get();
}

void SimPort::release_route(Route* route) {
  std::erase_if(routes_, [route](const auto& made) { return made.get() == route; });
}

void SimPort::begin_turn(Instant now, TurnReason) {
  now_ = now;
  room_at_ = {};
}

void SimPort::arrive(PooledFrame frame) {
  arrived_.push_back(frame);
  announce_frame();
}

std::size_t SimPort::rx_burst(std::span<RxFrame> out) {
  ROCI_ASSERT(lent_ == 0);
  lent_ = std::min(out.size(), arrived_.size());
  for (std::size_t i = 0; i < lent_; ++i) out[i] = {network_.memory(arrived_[i]), arrived_[i].size};
  return lent_;
}

void SimPort::rx_release() {
  for (; lent_ > 0; --lent_) {
    network_.free(arrived_.front());
    arrived_.pop_front();
  }
}

std::size_t SimPort::tx_reserve(Route& route, std::span<TxSlot> out) {
  ROCI_ASSERT(reserved_.empty());
  const std::uint32_t peer = static_cast<SimRoute&>(route).peer;
  std::uint32_t room = kUnreachableRoom;
  if (peer != kNowhere) {
    SimLink& link = network_.link(number_, peer);
    room = link.room(now_);
    if (room == 0) room_at_ = room_at_ == Instant{} ? link.room_at() : std::min(room_at_, link.room_at());
  }
  const std::size_t count = std::min<std::size_t>(out.size(), room);
  for (std::size_t i = 0; i < count; ++i) {
    reserved_.push_back(network_.allocate());
    out[i].data = network_.memory(reserved_.back());
  }
  return count;
}

void SimPort::tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) {
  ROCI_ASSERT(frame_bytes.size() <= reserved_.size());
  const std::uint32_t peer = static_cast<SimRoute&>(route).peer;
  for (std::size_t i = 0; i < reserved_.size(); ++i) {
    PooledFrame frame = reserved_[i];
    if (i >= frame_bytes.size() || peer == kNowhere) {
      if (i < frame_bytes.size()) ++unreachable_frames_;
      network_.free(frame);
      continue;
    }
    ROCI_ASSERT(frame_bytes[i] <= kMaxFrameBytes);
    frame.size = frame_bytes[i];
    network_.link(number_, peer).send(frame, now_);
  }
  reserved_.clear();
}

bool SimPort::peer_stalled(const Route& route) {
  const std::uint32_t peer = static_cast<const SimRoute&>(route).peer;
  return peer != kNowhere && network_.ports()[peer]->stalled_;
}

}  // namespace roci::sim
