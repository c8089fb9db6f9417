// A port with faults: a decorator that lets a fault script strike what another port sends and receives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "drivers/faults/fault_injector.h"
#include "drivers/faults/fault_line.h"
#include "stack/engine/port.h"

namespace roci {

/// Each frame is copied once more on its way, in memory taken at construction. Frames held back count against the room
/// that tx_reserve() gives, so that a long delay is back-pressure and no loss. Owner: as Port.
class FaultPort : public Port {
 public:
  FaultPort(std::unique_ptr<Port> inner, FaultScript script, std::uint32_t frames = FaultLine::kDefaultFrames);

  FaultInjector& injector() { return injector_; }

  PortAttributes attributes() const override { return inner_->attributes(); }
  Route* acquire_route(const IpAddress& destination, Qpn dest_qpn) override {
    return inner_->acquire_route(destination, dest_qpn);
  }
  void release_route(Route* route) override;
  void begin_turn(Instant now, TurnReason reason) override;
  void end_turn(Instant now) override;
  std::size_t rx_burst(std::span<RxFrame> out) override;
  void rx_release() override;
  std::size_t tx_reserve(Route& route, std::span<TxSlot> out) override;
  void tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) override;
  Instant next_deadline() const override;
  bool peer_stalled(const Route& route) override { return inner_->peer_stalled(route); }
  void prepare_wait(bool deep) override { inner_->prepare_wait(deep); }
  bool wait(Duration at_most) override { return inner_->wait(at_most); }
  void cancel_wait() override { inner_->cancel_wait(); }
  void wake() override { inner_->wake(); }

 private:
  static constexpr std::size_t kSlots = 64;
  /// How soon to look again for room in the link.
  static constexpr Duration kRoomRetry = microseconds(10);

  /// Sends what is due and finds room.
  void release_tx();
  bool send_now(const FaultLine::Frame& frame);
  std::byte* slot(std::size_t index) const { return slots_.get() + index * kMaxFrameBytes; }

  const std::unique_ptr<Port> inner_;
  FaultInjector injector_;
  FaultLine tx_;
  FaultLine rx_;
  std::unique_ptr<std::byte[]> slots_;  ///< kSlots to send from, kSlots to receive into
  Instant now_{};
};

}  // namespace roci
