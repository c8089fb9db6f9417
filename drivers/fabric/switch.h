// The switch model. It does no I/O and owns no clock: told the time and given frames, asked for frames and deadlines,
// in real time or virtual.
//
// A frame that has arrived whole is given to receive(). It is classified, routed, charged to the shared buffer, queued
// at its egress port by priority, and taken out again by advance() when the port is free and the scheduler and PFC let
// it go; then it is marked or not, and leaves.
//
// To turn a switch: after each call of receive() or advance(), look at the ports of woken(); advance() each port at
// its next_deadline(), which has changed after a call of advance() too. One deadline a port is enough to keep: an
// earlier one replaces it, and a call before its time does nothing and does no harm.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "drivers/fabric/buffer.h"
#include "drivers/fabric/egress_queue.h"
#include "drivers/fabric/frame.h"
#include "drivers/fabric/red.h"
#include "drivers/fabric/routing.h"
#include "stack/base/types.h"
#include "stack/egress/dwrr.h"
#include "stack/egress/pause.h"
#include "stack/egress/settings.h"
#include "stack/wire/address.h"

namespace roci::fabric {

enum class MarkAt : std::uint8_t { kDequeue, kEnqueue };

/// Whose turn it is among the frames of one priority at one port.
enum class Arbitration : std::uint8_t {
  kLosslessRoundRobin,  ///< lossless priorities as kRoundRobin, the others as kArrival
  kRoundRobin,          ///< a frame from each ingress port in turn
  kArrival,             ///< in order of arrival
};

/// Against a peer that pauses a class forever (as SONiC's PFC watchdog).
struct WatchdogConfig {
  enum class Action : std::uint8_t {
    kOff,
    kDrop,    ///< what waits and what comes for the queue is dropped
    kIgnore,  ///< the queue sends in spite of the pause
  };
  Action action = Action::kOff;
  Duration detection = milliseconds(200);    ///< paused, not empty, and nothing sent for so long
  Duration restoration = milliseconds(200);  ///< the peer has called for no pause for so long
};

struct SwitchConfig {
  BufferConfig buffer;
  RedConfig red;
  MarkAt mark_at = MarkAt::kDequeue;
  WatchdogConfig watchdog;
  egress::Trust trust = egress::Trust::kDscp;
  std::uint8_t pfc = 0;  ///< bit n: priority n is lossless
  std::array<std::uint8_t, egress::kPriorities> prio_tc{0, 1, 2, 3, 4, 5, 6, 7};
  std::array<std::uint8_t, egress::kPriorities> tc_bw{};  ///< percent (ETS); 0: strict, the highest number first
  Arbitration arbitration = Arbitration::kLosslessRoundRobin;
  std::uint32_t max_frame_bytes = 4'272;  ///< without FCS; longer ones are dropped
  std::uint64_t headroom_bytes = 0;       ///< of each lossless PG; 0: by headroom_bytes() of each port's link
  std::uint16_t pause_quanta = 0xffff;    ///< of an XOFF; it is repeated after half of it
};

struct SwitchPortConfig {
  std::uint64_t rate_bps = 100'000'000'000;
  Duration delay = microseconds(1);  ///< of the link, one way
  MacAddress mac{};                  ///< source of the port's PFC frames
  /// How long the peer goes on beginning frames after a PFC frame's last bit; see HeadroomInputs.
  Duration pfc_response{};
};

enum class DropReason : std::uint8_t {
  kNoRoute,     ///< the destination is nowhere, or where the frame came from
  kTooLong,     ///< longer than max_frame_bytes
  kNoHeadroom,  ///< Admission says these three
  kQueueTooLong,
  kBufferFull,
  kWatchdog,
};
inline constexpr std::size_t kDropReasons = 6;
/// As it stands in a table.
const char* name_of(DropReason reason);

/// Of one priority of one port. Bytes are of frames without FCS.
struct PriorityCounters {
  std::uint64_t rx_frames = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t tx_frames = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t marks = 0;     ///< set here, on frames that were not marked before
  std::uint64_t rx_pause = 0;  ///< XOFFs received
  std::uint64_t rx_resume = 0;
  std::uint64_t tx_pause = 0;  ///< XOFFs sent, repetitions included
  std::uint64_t tx_resume = 0;
  std::uint64_t storms = 0;                         ///< that the watchdog saw
  std::array<std::uint64_t, kDropReasons> drops{};  ///< frames, at the port where they were to leave or, if the ingress
                                                    ///< side refused them, came in
};

/// A frame that a port has begun to send.
struct Transmission {
  Frame* frame = nullptr;  ///< null: none. Otherwise the caller's from now on
  Instant sent{};          ///< its last bit leaves, and the port is free
  Instant arrives{};       ///< its last bit arrives at the peer
};

/// What Switch::pass() has begun to send, and where.
struct Passage {
  unsigned port = 0;
  Transmission transmission;
};

/// What in-band telemetry says of a queue that a frame leaves (as HPCC's INT).
struct TelemetryHop {
  std::uint64_t rate_bps = 0;
  std::uint64_t tx_bytes = 0;  ///< on the wire, of the port, this frame not included
  Instant at{};
  std::uint64_t queue_bytes = 0;  ///< behind the frame
};

/// Told at each dequeue.
class TelemetrySink {
 public:
  virtual ~TelemetrySink() = default;
  virtual void on_dequeue(Frame& frame, const TelemetryHop& hop) = 0;
};

/// Owner: one thread.
class Switch {
 public:
  /// check() has found nothing wrong. `pool` outlives the switch. `seed` is the run's, `number` the switch's own.
  Switch(const SwitchConfig& config, std::span<const SwitchPortConfig> ports, RoutingTable routes, FramePool& pool,
         std::uint64_t seed, std::uint32_t number);
  ~Switch();
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  /// Null, or what is wrong with a configuration: a sentence without subject, for the scenario's author.
  static const char* check(const SwitchConfig& config, std::span<const SwitchPortConfig> ports);

  /// The last bit of `frame` has arrived at `port`. Takes the frame over. Only these of its members are the driver's:
  /// bytes, frame_bytes, stored_bytes, destination, source, tag; kind is kUnclassified where it enters the fabric.
  void receive(unsigned port, Frame* frame, Instant now);
  /// The same, where nothing stands in the way of the frame's leaving at once: nothing waits at its egress port, which
  /// is free, and it fits into the buffer. Otherwise nothing happens and the frame, which may have been classified, is
  /// still the caller's, for receive(). The outcome is that of receive() and advance(), for less.
  Passage pass(unsigned port, Frame* frame, Instant now);
  /// Does what is due at `port`, and begins to send a frame if there is one that may go.
  Transmission advance(unsigned port, Instant now);
  /// When advance() will have something to do at `port`, if nothing happens before: `now` or later.
  Instant next_deadline(unsigned port, Instant now);
  /// Ports whose next_deadline() may have become earlier by other calls than their own advance(), since clear_woken().
  std::span<const std::uint16_t> woken() const { return woken_; }
  void clear_woken();

  /// Null: nobody. Outlives its use.
  void set_telemetry(TelemetrySink* sink) { telemetry_ = sink; }

  std::uint32_t number() const { return number_; }
  unsigned ports() const { return static_cast<unsigned>(ports_.size()); }
  const SwitchConfig& config() const { return config_; }
  const RoutingTable& routes() const { return routes_; }
  const SharedBuffer& buffer() const { return buffer_; }
  std::uint64_t headroom_bytes(unsigned port) const { return headroom_bytes_[port]; }
  const PriorityCounters& counters(unsigned port, unsigned priority) const { return ports_[port].counters[priority]; }
  /// Null if nothing has ever been queued there.
  const QueueStatistics* queue_statistics(unsigned port, unsigned priority) const;
  /// Time for which the peer of `port` has kept `priority` paused.
  Duration paused(unsigned port, unsigned priority, Instant now) const;
  /// Counters and statistics start again: the end of a warm-up.
  void reset_statistics(Instant now);
  /// Bytes in the switch.
  std::uint64_t held_bytes() const { return buffer_.used_bytes(); }

 private:
  /// Of a queue, as the watchdog sees it.
  struct Watch {
    Instant stalled_since = kNever;  ///< paused without a gap and not empty, so nothing was sent
    Instant last_pause{};            ///< or when the storm was seen
  };
  struct Port {
    Port(const SwitchConfig& all, const SwitchPortConfig& own, std::uint64_t seed, std::uint32_t number,
         std::uint32_t switch_number);

    SwitchPortConfig config;
    std::uint64_t ps_per_byte;  ///< 0: not a whole number
    Instant busy_until{};
    std::uint64_t tx_bytes = 0;
    std::uint8_t backlogged = 0;  ///< bit n: the queue of priority n is not empty
    std::uint8_t xoff = 0;        ///< bit n: the peer is to hold back priority n
    std::uint8_t told = 0;        ///< what the last PFC frame has told it
    std::uint8_t storms = 0;      ///< bit n: the watchdog is at work on priority n
    bool refresh_due = false;
    bool woken = false;
    std::array<std::uint8_t, egress::Dwrr::kClasses> last_priority{};  ///< of each class, that took its last turn
    Instant refresh_at = kNever;
    Instant watchdog_at = kNever;
    egress::PauseState pauses;
    egress::Dwrr classes;
    Red red;
    std::array<std::unique_ptr<EgressQueue>, egress::kPriorities> queues;
    std::array<Watch, egress::kPriorities> watches{};
    std::array<PriorityCounters, egress::kPriorities> counters{};
    std::array<Duration, egress::kPriorities> paused_before{};  ///< reset_statistics()
  };

  void wake(unsigned port);
  void on_pfc(unsigned port, const Frame& frame, Instant now);
  void pause(Port& port, unsigned priority, std::uint16_t quanta, Instant now);
  void drop(unsigned port, Frame* frame, DropReason reason);
  void enqueue(unsigned port, Frame* frame, Instant now);
  EgressQueue& queue_of(Port& port, unsigned priority);
  unsigned choose_priority(Port& port, std::uint8_t eligible);
  Transmission send_frame(Port& port, unsigned priority, Instant now);
  Transmission send_pfc(Port& port, Instant now);
  std::uint32_t route(const Frame& frame) const;
  bool is_idle(Port& port, unsigned priority, Instant now);
  void tell(Frame& frame, const Port& port, std::uint64_t queue_bytes, Instant now);
  void mark(Port& port, Frame& frame);
  void release(const Frame& frame);
  Duration time_on_wire(const Port& port, std::uint32_t wire_bytes) const;
  Transmission transmit(Port& port, Frame* frame, Instant now);

  void run_alarms(unsigned number, Instant now);
  void watch_stall(Port& port, unsigned priority, Instant now);
  void run_watchdog(unsigned number, Instant now);
  void begin_storm(unsigned number, unsigned priority, Instant now);

  void check_balance() const;

  const SwitchConfig config_;
  const std::uint32_t number_;
  const RoutingTable routes_;
  FramePool& pool_;
  std::vector<std::uint64_t> headroom_bytes_;
  SharedBuffer buffer_;
  std::vector<Port> ports_;
  std::vector<std::uint16_t> woken_;
  TelemetrySink* telemetry_ = nullptr;
  Instant counted_since_{};  ///< reset_statistics()
  std::uint64_t bytes_in_ = 0;
  std::uint64_t bytes_out_ = 0;
  std::uint64_t bytes_dropped_ = 0;
};

}  // namespace roci::fabric
