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
class FaultPort : public PortDecorator {
 public:
  FaultPort(std::unique_ptr<Port> inner, FaultScript script, std::uint32_t frames = FaultLine::kDefaultFrames,
            std::size_t log_records = FaultInjector::kLogRecords);

  FaultInjector& injector() { return injector_; }

  void release_route(Route* route) override;
  void begin_turn(Instant now, TurnReason reason) override;
  void end_turn(Instant now) override;
  std::size_t rx_burst(std::span<RxFrame> out) override;
  void rx_release() override;
  std::size_t tx_reserve(Route& route, std::span<TxSlot> out) override;
  void tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) override;
  Instant next_deadline() const override;

 private:
  static constexpr std::size_t kSlots = 64;
  /// How soon to look again for room in the link.
  static constexpr Duration kRoomRetry = microseconds(10);

  /// Sends what is due and finds room.
  void release_tx();
  bool send_now(const FaultLine::Frame& frame);
  std::byte* slot(std::size_t index) const { return slots_.get() + index * kMaxFrameBytes; }

  FaultInjector injector_;
  FaultLine tx_;
  FaultLine rx_;
  std::unique_ptr<std::byte[]> slots_;  ///< kSlots to send from, kSlots to receive into
  Instant now_{};
};

}  // namespace roci
