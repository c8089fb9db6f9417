#include "tests/fuzz/fuzz_port.h"

#include <algorithm>
#include <cstring>

#include "stack/base/bytes.h"
#include "stack/wire/icrc.h"
#include "tests/fuzz/require.h"

namespace roci::fuzz {
namespace {

constexpr std::uint32_t kOwnV4 = 0xc612'0001;
constexpr std::uint32_t kIcrcBytes = 4;

IpAddress address(std::uint32_t number, bool is_v4) {
  if (is_v4) return IpAddress::v4(kOwnV4 + number);
  IpAddress v6{{0xfd}};
  v6.bytes[15] = static_cast<std::uint8_t>(number + 1);
  return v6;
}

}  // namespace

IpAddress own_address(bool is_v4) { return address(0, is_v4); }
IpAddress peer_address(std::uint32_t number, bool is_v4) { return address(number + 1, is_v4); }

FuzzPort::FuzzPort() : memory_(kMostFrameBytes), slots_(std::make_unique<std::array<Slot, kSlots>>()) {
  for (Slot& slot : *slots_) slot.fill(kCanary);
}

void FuzzPort::feed(std::span<const std::byte> frame) {
  require(!frame_bytes_ && frame.size() <= kMostFrameBytes, "the last frame has been taken");
  frame_bytes_ = frame.size();
  if (!frame.empty()) std::memcpy(memory_.last(frame.size()), frame.data(), frame.size());
}

PortAttributes FuzzPort::attributes() const {
  return {.mac = {{2, 0, 198, 18, 0, 1}},
          .addresses = {own_address(true), own_address(false)},
          .link_mtu_bytes = 4200,
          .speed_bps = 100'000'000'000};
}

Route* FuzzPort::acquire_route(const IpAddress& destination, Qpn) {
  auto route = std::make_unique<Route>();
  store_be<std::uint16_t>(route->l2.data() + 12, destination.is_v4() ? kEtherTypeIpv4 : kEtherTypeIpv6);
  routes_.push_back(std::move(route));
  return routes_.back().get();
}

void FuzzPort::release_route(Route* route) {
  const auto released = std::erase_if(routes_, [route](const auto& made) { return made.get() == route; });
  require(released == 1, "a route is given back once");
}

std::size_t FuzzPort::rx_burst(std::span<RxFrame> out) {
  require(!lent_, "a burst is given back before the next");
  if (!frame_bytes_ || out.empty()) return 0;
  lent_ = true;
  out[0] = {memory_.last(*frame_bytes_), static_cast<std::uint32_t>(*frame_bytes_)};
  return 1;
}

void FuzzPort::rx_release() {
  if (std::exchange(lent_, false)) frame_bytes_.reset();
}

std::size_t FuzzPort::tx_reserve(Route&, std::span<TxSlot> out) {
  require(reserved_ == 0, "one reservation at a time");
  reserved_ = std::min({out.size(), room_frames, kSlots});
  for (std::size_t i = 0; i < reserved_; ++i) out[i].data = (*slots_)[i].data();
  return reserved_;
}

void FuzzPort::tx_commit(Route&, std::span<const std::uint32_t> frame_bytes) {
  require(frame_bytes.size() <= reserved_, "no more frames are sent than were reserved");
  for (std::size_t i = 0; i < reserved_; ++i) {
    const Slot& slot = (*slots_)[i];
    require(std::all_of(slot.end() - kCanaryBytes, slot.end(), [](std::byte b) { return b == kCanary; }),
            "a frame is written within its slot");
  }
  for (std::size_t i = 0; i < frame_bytes.size(); ++i) {
    require(frame_bytes[i] <= kMaxFrameBytes, "a frame is not longer than its slot");
    sent_.push_back(examine({(*slots_)[i].data(), frame_bytes[i]}));
  }
  reserved_ = 0;
}

SentPacket FuzzPort::examine(std::span<const std::byte> frame) const {
  PacketView view;
  const auto header = frame.first(std::min(frame.size(), kHeaderCopyBytes));
  require(parse_packet(header, static_cast<std::uint32_t>(frame.size()), &view) == ParseStatus::kOk,
          "what is sent can be parsed");
  require(view.icrc_offset + kIcrcBytes == frame.size(), "a sent frame ends with its ICRC");
  const std::uint32_t icrc = compute_icrc(frame.data() + view.l3_offset, view.is_v4, view.icrc_offset - view.l3_offset);
  require(icrc == load_icrc(frame.data() + view.icrc_offset), "what is sent has a right ICRC");
  require(view.source() == own_address(view.is_v4), "what is sent names the port as its source");
  SentPacket packet{
      .dest_qpn = view.bth.dest_qpn, .destination = view.destination(), .info = view.info, .psn = view.bth.psn};
  if (view.info->has(Extension::kAeth)) packet.aeth = view.aeth();
  return packet;
}

}  // namespace roci::fuzz
