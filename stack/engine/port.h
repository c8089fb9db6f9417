// The one seam between the stack and the world: a port sends and receives whole Ethernet frames.
// Drivers (cable, DPDK, simulation, fabric) implement it; nothing else in the stack does I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "stack/base/types.h"
#include "stack/wire/address.h"
#include "stack/wire/route.h"

namespace roci {

/// Room that every transmit slot has: Ethernet, 802.1Q, IPv6, UDP, BTH, the longest extension headers, 4096 bytes
/// of payload, ICRC; rounded up.
inline constexpr std::uint32_t kMaxFrameBytes = 4272;

/// A received frame, from the Ethernet header, without FCS. The bytes may be in memory that another process can
/// write: copy a header out before parsing it. Valid until rx_release().
struct RxFrame {
  const std::byte* data = nullptr;
  std::uint32_t size = 0;
};

/// A writable frame buffer of kMaxFrameBytes, from the Ethernet header.
struct TxSlot {
  std::byte* data = nullptr;
};

struct PortAttributes {
  MacAddress mac;
  std::vector<IpAddress> addresses;  ///< the GID table, in order; unspecified where there is none any more
  std::uint32_t link_mtu_bytes = 0;  ///< largest IP packet
  std::uint64_t speed_bps = 0;
  std::uint32_t qpn_block = 0;  ///< top 6 bits of every QPN made on this port
  bool link_up = true;
  /// In simulation: packets go without their payload, though with all lengths as if it were there. Keys and ranges are
  /// checked, but memory is neither read nor written, and the ICRC of a packet with payload neither made nor checked.
  /// Routes say the same.
  bool elides_payload = false;
};

/// Why a worker is being turned. Only a turn that promises another soon stamps the heartbeat.
enum class TurnReason : std::uint8_t {
  kPost,        ///< once, after posting: no promise to come back
  kPoll,        ///< by a caller that polls: likely to come back at once
  kBackground,  ///< by the background thread
};

/// Owner: whoever holds the worker's baton, unless a function says otherwise.
class Port : public RouteSource {
 public:
  virtual ~Port() = default;

  virtual PortAttributes attributes() const = 0;

  /// From now on frames to the multicast group are received, those that this port sends too; counted, so that as many
  /// leave_group() end it.
  virtual void join_group(const IpAddress&) {}
  virtual void leave_group(const IpAddress&) {}

  virtual void begin_turn(Instant now, TurnReason reason) = 0;
  /// Publishes what was consumed and sent, and wakes peers that need it.
  virtual void end_turn(Instant now) = 0;

  /// Fills up to out.size() frames, fairly over peers; 0 when there are none.
  virtual std::size_t rx_burst(std::span<RxFrame> out) = 0;
  /// Gives back all frames of the last rx_burst.
  virtual void rx_release() = 0;

  /// Hands out up to out.size() slots towards `route`; 0 means no room now (never a drop). One reservation at a time.
  virtual std::size_t tx_reserve(Route& route, std::span<TxSlot> out) = 0;
  /// Sends the first frame_bytes.size() slots of the reservation, with these lengths, and gives back the rest.
  virtual void tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) = 0;

  /// The way to whatever is at the other end of the wire, for frames of the link itself (PFC). Null where a link has no
  /// such end, or nobody there would obey.
  virtual Route* link_partner() { return nullptr; }

  /// When the port itself needs a turn, by the clock of `now`, even if nothing arrives and nobody posts: a frame that a
  /// fault script holds back, say.
  virtual Instant next_deadline() const { return kNever; }

  /// True once after attributes() changed.
  virtual bool take_change() { return false; }

  /// True while the peer is alive but has not taken what was sent, or stands still in the middle of a turn: an
  /// acknowledgement cannot come yet. False where the link cannot know.
  virtual bool peer_stalled(const Route& route) = 0;

  /// A number for the life of the process behind `destination` and `dest_qpn`: another process in its place has
  /// another, and 0 says that there is none. Always 1 where the link cannot know.
  virtual std::uint64_t incarnation(const IpAddress&, Qpn) { return 1; }
  /// The QPN block of the next process that has this port's addresses, too. None behind the last.
  virtual std::optional<std::uint32_t> next_of_host() { return std::nullopt; }

  // The background thread, without the baton. It says that it is about to sleep, turns the worker once more, for what
  // arrived unheard before, and then sleeps.
  /// From now on wake() and peers end the wait() that follows. `deep` tells the peers that nobody turns this worker, so
  /// that each frame rings.
  virtual void prepare_wait(bool deep) = 0;
  /// Sleeps until rung, or for `at_most`. False: the time is over.
  virtual bool wait(Duration at_most) = 0;
  /// Instead of wait(): the last turn found work.
  virtual void cancel_wait() = 0;
  /// Any thread: ends a wait() of this port.
  virtual void wake() = 0;

  /// The process is ending, and nobody turns the worker any more: leaves the link as the destructor would. After it
  /// only wake() may be called, and the destructor.
  virtual void close() {}
};

/// A port around another: forwards everything; what it changes, a subclass overrides. Owner: as Port.
class PortDecorator : public Port {
 public:
  explicit PortDecorator(std::unique_ptr<Port> inner) : inner_(std::move(inner)) {}

  PortAttributes attributes() const override { return inner_->attributes(); }
  Route* acquire_route(const IpAddress& destination, Qpn dest_qpn) override {
    return inner_->acquire_route(destination, dest_qpn);
  }
  void release_route(Route* route) override { inner_->release_route(route); }
  void join_group(const IpAddress& group) override { inner_->join_group(group); }
  void leave_group(const IpAddress& group) override { inner_->leave_group(group); }
  void begin_turn(Instant now, TurnReason reason) override { inner_->begin_turn(now, reason); }
  void end_turn(Instant now) override { inner_->end_turn(now); }
  std::size_t rx_burst(std::span<RxFrame> out) override { return inner_->rx_burst(out); }
  void rx_release() override { inner_->rx_release(); }
  std::size_t tx_reserve(Route& route, std::span<TxSlot> out) override { return inner_->tx_reserve(route, out); }
  Route* link_partner() override { return inner_->link_partner(); }
  void tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) override {
    inner_->tx_commit(route, frame_bytes);
  }
  Instant next_deadline() const override { return inner_->next_deadline(); }
  bool take_change() override { return inner_->take_change(); }
  bool peer_stalled(const Route& route) override { return inner_->peer_stalled(route); }
  std::uint64_t incarnation(const IpAddress& destination, Qpn dest_qpn) override {
    return inner_->incarnation(destination, dest_qpn);
  }
  std::optional<std::uint32_t> next_of_host() override { return inner_->next_of_host(); }
  void prepare_wait(bool deep) override { inner_->prepare_wait(deep); }
  bool wait(Duration at_most) override { return inner_->wait(at_most); }
  void cancel_wait() override { inner_->cancel_wait(); }
  void wake() override { inner_->wake(); }
  void close() override { inner_->close(); }

 protected:
  const std::unique_ptr<Port> inner_;
};

}  // namespace roci
