// A port that shows what passes through it, and frames in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stack/engine/port.h"
#include "stack/wire/packet.h"

namespace roci::simtest {

/// "qp=5 RC_SEND_ONLY psn=7 ackreq", with the syndrome where there is one.
std::string describe_frame(std::span<const std::byte> frame);

/// False if the frame is no RoCE v2 packet. `view` refers to the frame.
bool parse_frame(std::span<const std::byte> frame, PacketView* view);
/// Of a packet that parse_frame() took.
bool icrc_is_right(std::span<const std::byte> frame, const PacketView& view);

/// Sees what a stack hands over, and what it gets: before and after all faults.
class FrameObserver {
 public:
  virtual ~FrameObserver() = default;
  virtual void on_sent(Instant now, std::uint32_t host, std::span<const std::byte> frame) = 0;
  virtual void on_received(Instant now, std::uint32_t host, std::span<const std::byte> frame) = 0;
};

/// Owner: as Port.
class RecordedPort : public PortDecorator {
 public:
  RecordedPort(std::unique_ptr<Port> inner, FrameObserver& observer, std::uint32_t host)
      : PortDecorator(std::move(inner)), observer_(observer), host_(host) {}

  void begin_turn(Instant now, TurnReason reason) override;
  std::size_t rx_burst(std::span<RxFrame> out) override;
  std::size_t tx_reserve(Route& route, std::span<TxSlot> out) override;
  void tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) override;

 private:
  FrameObserver& observer_;
  const std::uint32_t host_;
  std::vector<TxSlot> reserved_;
  Instant now_{};
};

}  // namespace roci::simtest
