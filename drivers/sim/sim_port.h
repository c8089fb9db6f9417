// The port of a simulated host: one end of the simulated segment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "drivers/sim/host_port.h"
#include "drivers/sim/network.h"
#include "stack/engine/port.h"

namespace roci::sim {

/// A host of one worker, n, has QPN block n modulo 64.
class SimPort : public HostPort {
 public:
  SimPort(Network& network, const PortPlace& place);
  ~SimPort() override;
  SimPort(const SimPort&) = delete;
  SimPort& operator=(const SimPort&) = delete;

  const PortPlace& place() const { return place_; }
  void arrive(PooledFrame frame);

  bool has_frames() const override { return !arrived_.empty(); }
  Instant room_at() const override { return room_at_; }
  std::uint64_t unreachable_frames() const override { return unreachable_frames_; }
  void set_stalled(bool stalled) override { stalled_ = stalled; }

  PortAttributes attributes() const override;
  Route* acquire_route(const IpAddress& destination, Qpn dest_qpn) override;
  void release_route(Route* route) override;
  void begin_turn(Instant now, TurnReason reason) override;
  void end_turn(Instant) override {}
  std::size_t rx_burst(std::span<RxFrame> out) override;
  void rx_release() override;
  std::size_t tx_reserve(Route& route, std::span<TxSlot> out) override;
  void tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) override;
  bool peer_stalled(const Route& route) override;

 private:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;
  static constexpr std::uint32_t kUnreachableRoom = 16;

  struct SimRoute : Route {
    std::uint32_t peer = kNowhere;  ///< number of the port in the network
  };

  std::uint32_t find_port(const IpAddress& address, Qpn qpn) const;

  Network& network_;
  const PortPlace place_;
  const std::uint32_t number_;  ///< in the network
  std::vector<std::unique_ptr<SimRoute>> routes_;
  std::deque<PooledFrame> arrived_;
  std::size_t lent_ = 0;  ///< at the front of arrived_, in the stack's hands
  std::vector<PooledFrame> reserved_;
  Instant now_{};
  Instant room_at_{};
  std::uint64_t unreachable_frames_ = 0;
  bool stalled_ = false;
};

}  // namespace roci::sim
