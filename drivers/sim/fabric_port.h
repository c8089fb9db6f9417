// The NIC of a simulated host that is joined to a switch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "drivers/fabric/frame.h"
#include "drivers/fabric/topology.h"
#include "drivers/sim/event_queue.h"
#include "drivers/sim/fabric_link.h"
#include "drivers/sim/host_port.h"

namespace roci::sim {

/// Few frames are handed over before they can leave, so that the stack's egress decides late what goes next.
class FabricPort : public HostPort, public FrameReceiver {
 public:
  /// Handed over and not all sent. Half of them are sent before the stack is asked for more, which halves its turns.
  static constexpr std::uint32_t kTxFrames = 4;

  /// One of `hosts`, joined as `topology` says. `link`, which it sends into, and `pool` outlive it.
  FabricPort(std::uint32_t number, std::uint32_t hosts, const fabric::TopologyPort& topology, fabric::FramePool& pool,
             FabricLink& link, fabric::Payload payload);
  ~FabricPort() override;
  FabricPort(const FabricPort&) = delete;
  FabricPort& operator=(const FabricPort&) = delete;

  void on_arrival(unsigned port, fabric::Frame* frame, Instant now) override;

  bool has_frames() const override { return !arrived_.empty(); }
  Instant room_at() const override { return room_at_; }
  std::uint64_t unreachable_frames() const override { return unreachable_frames_; }
  /// A wire does not know.
  void set_stalled(bool) override {}

  PortAttributes attributes() const override;
  Route* acquire_route(const IpAddress& destination, Qpn dest_qpn) override;
  void release_route(Route* route) override;
  Route* link_partner() override { return &partner_; }
  void begin_turn(Instant now, TurnReason reason) override;
  void end_turn(Instant) override {}
  std::size_t rx_burst(std::span<RxFrame> out) override;
  void rx_release() override;
  std::size_t tx_reserve(Route& route, std::span<TxSlot> out) override;
  void tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) override;
  bool peer_stalled(const Route&) override { return false; }

 private:
  struct FabricRoute : Route {
    std::uint32_t destination = fabric::Frame::kNowhere;
  };

  std::uint32_t stored_bytes(const fabric::Frame& frame) const;
  void transmit(fabric::Frame* frame, std::uint32_t destination);
  std::uint32_t room();

  const std::uint32_t number_;
  const std::uint32_t hosts_;
  const std::uint64_t rate_bps_;
  const Duration delay_;
  const fabric::Payload payload_;
  fabric::FramePool& pool_;
  FabricLink& link_;
  std::vector<std::unique_ptr<FabricRoute>> routes_;
  FabricRoute partner_;
  fabric::FrameFifo arrived_;
  fabric::FrameFifo lent_;
  std::vector<fabric::Frame*> reserved_;
  std::array<Instant, kTxFrames> departures_{};  ///< when the last bits of the last frames leave, in a ring
  std::uint32_t last_departure_ = 0;             ///< in departures_
  Instant now_{};
  Instant room_at_{};
  std::uint64_t unreachable_frames_ = 0;
};

}  // namespace roci::sim
