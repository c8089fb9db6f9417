#include "drivers/sim/fabric_port.h"

#include <algorithm>
#include <cstring>

#include "stack/base/assert.h"
#include "stack/base/bytes.h"
#include "stack/egress/pacer.h"
#include "stack/wire/headers.h"
#include "stack/wire/opcodes.h"

namespace roci::sim {
FabricPort::FabricPort(std::uint32_t number, std::uint32_t hosts, const fabric::TopologyPort& topology,
                       fabric::FramePool& pool, FabricLink& link, fabric::Payload payload)
    : number_(number),
      hosts_(hosts),
      rate_bps_(topology.rate_bps),
      delay_(topology.delay),
      payload_(payload),
      pool_(pool),
      link_(link) {}

FabricPort::~FabricPort() {
  rx_release();
  while (fabric::Frame* frame = arrived_.pop()) pool_.free(frame);
}

PortAttributes FabricPort::attributes() const {
  PortAttributes attributes = host_attributes({.host = number_}, rate_bps_);
  attributes.elides_payload = payload_ == fabric::Payload::kElided;
  return attributes;
}

Route* FabricPort::acquire_route(const IpAddress& destination, Qpn) {
  auto route = std::make_unique<FabricRoute>();
  route->destination = host_of(destination, hosts_);
  const bool known = route->destination != fabric::Frame::kNowhere;
  route->elides_payload = payload_ == fabric::Payload::kElided;
  fill_route(*route, known ? mac_address(route->destination) : MacAddress{}, number_, destination.is_v4());
  routes_.push_back(std::move(route));
  return routes_.back().get();
}

void FabricPort::release_route(Route* route) {
  std::erase_if(routes_, [route](const auto& made) { return made.get() == route; });
}

void FabricPort::begin_turn(Instant now, TurnReason) {
  now_ = now;
  room_at_ = {};
}

/// The host's turn reads the headers to their end, switches did not.
void FabricPort::on_arrival(unsigned, fabric::Frame* frame, Instant) {
  constexpr std::size_t kLineBytes = 64;
  __builtin_prefetch(frame->bytes);
  __builtin_prefetch(frame->bytes + kLineBytes);
  arrived_.push(frame);
  announce_frame();
}

std::size_t FabricPort::rx_burst(std::span<RxFrame> out) {
  std::size_t count = 0;
  while (count < out.size() && !arrived_.empty()) {
    fabric::Frame* frame = arrived_.pop();
    out[count++] = {frame->bytes, frame->frame_bytes};
    lent_.push(frame);
  }
  return count;
}

void FabricPort::rx_release() {
  while (fabric::Frame* frame = lent_.pop()) pool_.free(frame);
}

/// The ring holds the times of the last kTxFrames frames, oldest after the newest.
std::uint32_t FabricPort::room() {
  std::uint32_t free = 0;
  while (free < kTxFrames && departures_[(last_departure_ + 1 + free) % kTxFrames] <= now_) ++free;
  return free;
}

std::size_t FabricPort::tx_reserve(Route&, std::span<TxSlot> out) {
  ROCI_ASSERT(reserved_.empty());
  const std::size_t count = std::min<std::size_t>(out.size(), room());
  if (count == 0) room_at_ = departures_[(last_departure_ + kTxFrames / 2) % kTxFrames];
  for (std::size_t i = 0; i < count; ++i) {
    reserved_.push_back(pool_.allocate(pool_.large_bytes()));
    out[i].data = reserved_.back()->bytes;
  }
  return count;
}

void FabricPort::tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) {
  ROCI_ASSERT(frame_bytes.size() <= reserved_.size());
  for (std::size_t i = 0; i < reserved_.size(); ++i) {
    fabric::Frame* frame = reserved_[i];
    if (i >= frame_bytes.size()) {
      pool_.free(frame);
      continue;
    }
    ROCI_ASSERT(frame_bytes[i] <= frame->capacity);
    frame->frame_bytes = frame_bytes[i];
    frame->stored_bytes = payload_ == fabric::Payload::kCarried ? frame_bytes[i] : stored_bytes(*frame);
    transmit(frame, static_cast<FabricRoute&>(route).destination);
  }
  reserved_.clear();
}

/// Where payload is elided: only the headers of a packet that has any.
std::uint32_t FabricPort::stored_bytes(const fabric::Frame& frame) const {
  const auto ether_type = load_be<std::uint16_t>(frame.bytes + EthernetHeader::kSize - sizeof(std::uint16_t));
  if (ether_type != kEtherTypeIpv4 && ether_type != kEtherTypeIpv6) return frame.frame_bytes;
  const std::size_t l3_bytes = ether_type == kEtherTypeIpv4 ? Ipv4Header::kSize : Ipv6Header::kSize;
  const std::size_t bth = EthernetHeader::kSize + l3_bytes + UdpHeader::kSize;
  const OpcodeInfo& info = opcode_info(std::to_integer<std::uint8_t>(frame.bytes[bth]));
  const auto headers = static_cast<std::uint32_t>(bth + Bth::kSize + info.extension_bytes);
  return frame.frame_bytes > headers + sizeof(std::uint32_t) ? headers : frame.frame_bytes;
}

/// Small frames give their large memory back.
void FabricPort::transmit(fabric::Frame* frame, std::uint32_t destination) {
  if (frame->stored_bytes <= fabric::FramePool::kSmallBytes) {
    fabric::Frame* small = pool_.allocate(frame->stored_bytes);
    std::memcpy(small->bytes, frame->bytes, frame->stored_bytes);
    small->frame_bytes = frame->frame_bytes;
    small->stored_bytes = frame->stored_bytes;
    pool_.free(frame);
    frame = small;
  }
  frame->source = number_;
  frame->destination = destination;
  const Instant start = std::max(departures_[last_departure_], now_);
  last_departure_ = (last_departure_ + 1) % kTxFrames;
  departures_[last_departure_] = start + egress::wire_time(frame->wire_bytes(), rate_bps_);
  link_.send(frame, departures_[last_departure_] + delay_);
}

}  // namespace roci::sim
