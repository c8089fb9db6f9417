// The port of a fuzz run: feeds one frame at a time and examines each frame that the stack sends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "stack/engine/port.h"
#include "stack/wire/packet.h"
#include "tests/fuzz/guarded_memory.h"

namespace roci::fuzz {

/// A peer of the stack: where QP n's packets go, and come from.
IpAddress peer_address(std::uint32_t number, bool is_v4);
IpAddress own_address(bool is_v4);

/// What the checks want to know of a frame that was sent.
struct SentPacket {
  Qpn dest_qpn;
  IpAddress destination;
  const OpcodeInfo* info = nullptr;
  Psn psn;
  std::optional<Aeth> aeth;
};

class FuzzPort : public Port {
 public:
  static constexpr std::size_t kMostFrameBytes = 16 * 4096;

  FuzzPort();

  /// The next turn receives this frame.
  void feed(std::span<const std::byte> frame);
  bool has_frame() const { return frame_bytes_.has_value(); }
  /// The packets sent since the last call.
  std::vector<SentPacket> take_sent() { return std::exchange(sent_, {}); }

  std::size_t room_frames = kSlots;
  bool stalled = false;

  PortAttributes attributes() const override;
  Route* acquire_route(const IpAddress& destination, Qpn dest_qpn) override;
  void release_route(Route* route) override;
  void begin_turn(Instant, TurnReason) override {}
  void end_turn(Instant) override {}
  std::size_t rx_burst(std::span<RxFrame> out) override;
  void rx_release() override;
  std::size_t tx_reserve(Route& route, std::span<TxSlot> out) override;
  void tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) override;
  bool peer_stalled(const Route&) override { return stalled; }
  void prepare_wait(bool) override {}
  bool wait(Duration) override { return false; }
  void cancel_wait() override {}
  void wake() override {}

 private:
  static constexpr std::size_t kSlots = 16;
  static constexpr std::size_t kCanaryBytes = 64;
  static constexpr std::byte kCanary{0xc5};
  using Slot = std::array<std::byte, kMaxFrameBytes + kCanaryBytes>;

  SentPacket examine(std::span<const std::byte> frame) const;

  GuardedPages memory_;
  std::optional<std::size_t> frame_bytes_;  ///< of the frame that lies ready, which may be empty
  bool lent_ = false;
  std::unique_ptr<std::array<Slot, kSlots>> slots_;
  std::size_t reserved_ = 0;
  std::vector<std::unique_ptr<Route>> routes_;
  std::vector<SentPacket> sent_;
};

}  // namespace roci::fuzz
