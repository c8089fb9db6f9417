// The interface of a congestion control algorithm: few events in, one allowance out.
//
// An algorithm reads no clock, allocates nothing and has no randomness of its own: time comes in as `now`, and the same
// object runs on real packets and in virtual time. Each QP has one object, placed in storage of the QP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "stack/base/types.h"

namespace roci {

/// What the path is known to be when a QP starts.
struct CcPath {
  std::uint64_t line_rate_bps = 0;  ///< of the port
  std::uint32_t mtu_bytes = 0;      ///< payload of a full packet
  std::uint32_t header_bytes = 0;   ///< what a full packet has besides, on the wire (preamble, FCS and gap included)
  Duration base_rtt{};              ///< without queues; 0 where it is not known
  std::uint32_t bdp_bytes = 0;      ///< 0 where it is not known
  std::uint8_t hops = 0;
};

/// In-band telemetry of one egress queue that a packet passed.
struct CcHop {
  std::uint64_t rate_bps = 0;
  std::uint64_t tx_bytes = 0;
  Instant at{};
  std::uint32_t queue_bytes = 0;
};

/// An acknowledgement. Sequence numbers are bytes since the QP started.
struct CcAck {
  Instant now{};
  Duration rtt{};     ///< of the newest packet acknowledged; 0 is no sample
  Duration remote{};  ///< of which spent in the receiver
  std::uint64_t acked_seq = 0;
  std::uint64_t snd_nxt = 0;
  std::uint32_t newly_acked_bytes = 0;
  std::uint32_t marked_bytes = 0;
  std::uint32_t inflight_bytes = 0;
  std::span<const CcHop> hops;
  bool nak = false;
};

struct CcSend {
  Instant now{};
  std::uint64_t snd_nxt = 0;
  std::uint32_t bytes = 0;  ///< on the wire, of a burst; preamble, FCS and gap included
};

enum class CcLoss : std::uint8_t { kNakSequence, kSackHole, kTimeout, kRnr };

/// What the QP may do until the next event. Each event may change it.
struct CcOut {
  std::uint64_t rate_bps = UINT64_MAX;  ///< of bytes on the wire; the line rate or more is no limit
  std::uint64_t window_bytes = UINT64_MAX;
  Instant deadline = kNever;  ///< when on_timer() is to be called
};

/// What the transport must provide; it skips what nobody wants. Not provided yet: kCcRemoteDelay and kCcInt.
enum CcNeeds : std::uint32_t {
  kCcCnp = 1u << 0,
  kCcEcnEcho = 1u << 1,
  kCcRtt = 1u << 2,
  kCcRemoteDelay = 1u << 3,
  kCcInt = 1u << 4,
  kCcAckEveryPacket = 1u << 5,
  kCcSendEvents = 1u << 6,
};

/// Owner: the worker of its QP. Trivially destructible in effect: its destructor is never called.
class CongestionControl {
 public:
  static constexpr std::size_t kMaxBytes = 192;

  /// CcNeeds bits; the same for the object's whole life.
  virtual std::uint32_t needs() const = 0;
  virtual void start(const CcPath& path, Instant now, CcOut& out) = 0;
  virtual void on_cnp(Instant, CcOut&) {}
  virtual void on_ack(const CcAck&, CcOut&) {}
  /// Only if needs() has kCcSendEvents; once a burst.
  virtual void on_send(const CcSend&, CcOut&) {}
  virtual void on_loss(Instant, CcLoss, std::uint32_t, CcOut&) {}
  /// out.deadline has come; sets the next one, or kNever.
  virtual void on_timer(Instant, CcOut&) {}
  virtual void on_idle_resume(Instant, CcOut&) {}

  /// What `roci stat` shows of the object.
  struct State {
    std::uint64_t current_rate_bps = 0;  ///< Rc
    std::uint64_t target_rate_bps = 0;   ///< Rt
    double alpha = 0;
  };
  virtual State state() const { return {}; }

 protected:
  ~CongestionControl() = default;
};

/// An algorithm with its parameters: a value that is copied and shared by all QPs.
struct CcSpec {
  /// Makes an object in `storage`, of CongestionControl::kMaxBytes, aligned for any type. Null: no congestion control.
  CongestionControl* (*make)(const void* parameters, std::byte* storage) = nullptr;
  std::shared_ptr<const void> parameters;  ///< what `make` gets; objects may keep pointers into it
  Duration cnp_interval{};                 ///< as notification point: the least time between CNPs of a QP
  bool sends_cnps = false;                 ///< as notification point: answers marks with CNPs
};

}  // namespace roci
