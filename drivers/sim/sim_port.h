// The port of a simulated host: one end of the simulated segment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "drivers/sim/network.h"
#include "stack/engine/port.h"

namespace roci::sim {

/// Told when a frame lies ready.
class ArrivalListener {
 public:
  virtual ~ArrivalListener() = default;
  virtual void on_frame_ready() = 0;
};

/// Host n has 198.18.0.(n+1) and fd00::(n+1), MAC 02:00 and the IPv4 bytes, QPN block n modulo 64.
class SimPort : public Port {
 public:
  SimPort(Network& network, std::uint32_t number, ArrivalListener& listener);
  ~SimPort() override;
  SimPort(const SimPort&) = delete;
  SimPort& operator=(const SimPort&) = delete;

  static IpAddress v4_address(std::uint32_t number) { return IpAddress::v4(0xc612'0001 + number); }
  static IpAddress v6_address(std::uint32_t number);

  std::uint32_t number() const { return number_; }
  void arrive(PooledFrame frame);
  bool has_frames() const { return !arrived_.empty(); }
  /// When there is room again where tx_reserve() last found none.
  Instant room_at() const { return room_at_; }
  /// Frames for addresses that no host has.
  std::uint64_t unreachable_frames() const { return unreachable_frames_; }
  /// What peers' peer_stalled() says of this host.
  void set_stalled(bool stalled) { stalled_ = stalled; }

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
  void prepare_wait(bool) override {}
  bool wait(Duration) override { return false; }
  void cancel_wait() override {}
  void wake() override {}

 private:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;
  static constexpr std::uint32_t kUnreachableRoom = 16;

  struct SimRoute : Route {
    std::uint32_t peer = kNowhere;  ///< number of the host
  };

  Network& network_;
  const std::uint32_t number_;
  ArrivalListener& listener_;
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
