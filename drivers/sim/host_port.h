// What a simulated host needs of its port besides what every port gives the stack; and what simulated hosts are called.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "stack/base/bytes.h"
#include "stack/base/types.h"
#include "stack/engine/port.h"
#include "stack/wire/headers_l3.h"

namespace roci::sim {

/// Told when a frame lies ready.
class ArrivalListener {
 public:
  virtual ~ArrivalListener() = default;
  virtual void on_frame_ready() = 0;
};

/// Owner: the simulation's thread.
class HostPort : public Port {
 public:
  /// Before the first frame arrives; outlives the port.
  void set_listener(ArrivalListener& listener) { listener_ = &listener; }

  virtual bool has_frames() const = 0;
  /// When there is room again where tx_reserve() last found none.
  virtual Instant room_at() const = 0;
  /// Frames for addresses that no host has.
  virtual std::uint64_t unreachable_frames() const = 0;
  /// What peers' peer_stalled() says of this host.
  virtual void set_stalled(bool stalled) = 0;

  // There is one thread, and it does not sleep.
  void prepare_wait(bool) override {}
  bool wait(Duration) override { return false; }
  void cancel_wait() override {}
  void wake() override {}

 protected:
  void announce_frame() { listener_->on_frame_ready(); }

 private:
  ArrivalListener* listener_ = nullptr;
};

// Host n has 198.18.0.(n+1) and fd00::(n+1), carried on into the bytes before, and MAC 02:00 and the IPv4 bytes.

inline IpAddress v4_address(std::uint32_t number) { return IpAddress::v4(0xc612'0001 + number); }

inline IpAddress v6_address(std::uint32_t number) {
  IpAddress address{{0xfd}};
  for (std::size_t i = 0; i < 4; ++i) address.bytes[15 - i] = static_cast<std::uint8_t>((number + 1) >> (8 * i));
  return address;
}

inline MacAddress mac_address(std::uint32_t number) {
  MacAddress mac{{2, 0}};
  const IpAddress ip = v4_address(number);
  std::copy(ip.bytes.begin() + 12, ip.bytes.end(), mac.bytes.begin() + 2);
  return mac;
}

/// The number behind an address of `hosts` hosts, or UINT32_MAX.
inline std::uint32_t host_of(const IpAddress& address, std::uint32_t hosts) {
  const auto low = load_be<std::uint32_t>(reinterpret_cast<const std::byte*>(address.bytes.data()) + 12);
  const std::uint32_t number = address.is_v4() ? low - 0xc612'0001 : low - 1;
  const bool known = number < hosts && (address == v4_address(number) || address == v6_address(number));
  return known ? number : UINT32_MAX;
}

/// Which of a host's ports: each of its workers has one, with a block of QP numbers.
struct PortPlace {
  std::uint32_t host = 0;
  std::uint32_t worker = 0;
  std::uint32_t workers = 1;

  std::uint32_t qpn_block() const {
    constexpr std::uint32_t kQpnBlocks = 64;
    return (host * workers + worker) % kQpnBlocks;
  }
};

inline PortAttributes host_attributes(const PortPlace& place, std::uint64_t speed_bps) {
  constexpr std::uint32_t kLinkMtuBytes = 4200;
  const std::uint32_t number = place.host;
  return {.mac = mac_address(number),
          .addresses = {v4_address(number), v6_address(number)},
          .link_mtu_bytes = kLinkMtuBytes,
          .speed_bps = speed_bps,
          .qpn_block = place.qpn_block()};
}

/// The Ethernet header of frames from host `from`.
inline void fill_route(Route& route, const MacAddress& target, std::uint32_t from, bool is_v4) {
  EthernetHeader{
      .destination = target, .source = mac_address(from), .ether_type = is_v4 ? kEtherTypeIpv4 : kEtherTypeIpv6}
      .write(route.l2.data());
}

}  // namespace roci::sim
