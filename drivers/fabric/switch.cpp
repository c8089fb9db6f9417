#include "drivers/fabric/switch.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "drivers/fabric/classify.h"
#include "drivers/fabric/headroom.h"
#include "stack/base/assert.h"
#include "stack/wire/pfc_frame.h"
#include "stack/wire/traffic_class.h"

namespace roci::fabric {
namespace {

constexpr std::uint64_t kBitPicosecondsPerByte = 8'000'000'000'000;

constexpr std::uint8_t bit(unsigned n) { return static_cast<std::uint8_t>(1u << n); }
constexpr bool has_bit(std::uint8_t mask, unsigned n) { return (mask >> n & 1) != 0; }
constexpr unsigned lowest_bit(std::uint8_t mask) { return static_cast<unsigned>(std::countr_zero(mask)); }

std::vector<std::uint64_t> headroom_of(const SwitchConfig& config, std::span<const SwitchPortConfig> ports) {
  std::vector<std::uint64_t> bytes;
  for (const SwitchPortConfig& port : ports)
    bytes.push_back(config.headroom_bytes != 0
                        ? config.headroom_bytes
                        : headroom_bytes({.rate_bps = port.rate_bps,
                                          .propagation = port.delay,
                                          .max_wire_bytes = config.max_frame_bytes + egress::kWireOverheadBytes,
                                          .response = port.pfc_response}));
  return bytes;
}

DropReason reason_of(Admission admission) {
  switch (admission) {
    case Admission::kNoHeadroom:
      return DropReason::kNoHeadroom;
    case Admission::kQueueTooLong:
      return DropReason::kQueueTooLong;
    default:
      return DropReason::kBufferFull;
  }
}

}  // namespace

const char* name_of(DropReason reason) {
  constexpr std::array<const char*, kDropReasons> kNames{"no_route",       "too_long",    "no_headroom",
                                                         "queue_too_long", "buffer_full", "watchdog"};
  return kNames[static_cast<std::size_t>(reason)];
}

Switch::Port::Port(const SwitchConfig& all, const SwitchPortConfig& own, std::uint64_t seed, std::uint32_t number,
                   std::uint32_t switch_number)
    : config(own),
      ps_per_byte(kBitPicosecondsPerByte % own.rate_bps == 0 ? kBitPicosecondsPerByte / own.rate_bps : 0),
      red(all.red, seed, switch_number, number) {
  classes.configure(all.tc_bw, all.max_frame_bytes + egress::kWireOverheadBytes);
}

Switch::Switch(const SwitchConfig& config, std::span<const SwitchPortConfig> ports, RoutingTable routes,
               FramePool& pool, std::uint64_t seed, std::uint32_t number)
    : config_(config),
      number_(number),
      routes_(std::move(routes)),
      pool_(pool),
      headroom_bytes_(headroom_of(config, ports)),
      buffer_(config.buffer, config.pfc, headroom_bytes_, config.max_frame_bytes) {
  ROCI_ASSERT(check(config, ports) == nullptr);
  ports_.reserve(ports.size());
  woken_.reserve(ports.size());
  for (const SwitchPortConfig& port : ports)
    ports_.emplace_back(config, port, seed, static_cast<std::uint32_t>(ports_.size()), number);
}

Switch::~Switch() {
  for (Port& port : ports_)
    for (const std::unique_ptr<EgressQueue>& queue : port.queues)
      while (queue != nullptr && !queue->empty()) pool_.free(queue->pop());
}

const char* Switch::check(const SwitchConfig& config, std::span<const SwitchPortConfig> ports) {
  if (ports.empty() || ports.size() > UINT16_MAX) return "needs from 1 to 65535 ports";
  for (const SwitchPortConfig& port : ports)
    if (port.rate_bps == 0 || port.rate_bps > kBitPicosecondsPerByte || port.delay < Duration{})
      return "needs links of 1 bit/s to 8 Tbit/s and a delay that is not negative";
  if (config.red.kmin_bytes > config.red.kmax_bytes) return "needs kmin <= kmax";
  if (!(config.red.pmax >= 0 && config.red.pmax <= 1)) return "needs pmax in 0..1";
  if (!(config.buffer.alpha > 0) || !(config.buffer.lossy_alpha > 0)) return "needs alpha > 0";
  for (const std::uint8_t traffic_class : config.prio_tc)
    if (traffic_class >= egress::kPriorities) return "needs traffic classes in 0..7";
  if (const int sum = std::accumulate(config.tc_bw.begin(), config.tc_bw.end(), 0); sum != 0 && sum != 100)
    return "needs shares of traffic classes that sum up to 100, or none";
  if (config.pause_quanta < 2) return "needs a pause of at least 2 quanta";
  if (config.max_frame_bytes < Frame::kMinBytes) return "needs frames of at least 60 bytes";
  if (SharedBuffer::shared_capacity(config.buffer, config.pfc, headroom_of(config, ports), config.max_frame_bytes) <= 0)
    return "needs a larger buffer: reserves and headroom of lossless priorities leave nothing to share";
  return nullptr;
}

void Switch::clear_woken() {
  for (const std::uint16_t port : woken_) ports_[port].woken = false;
  woken_.clear();
}

void Switch::wake(unsigned port) {
  if (ports_[port].woken) return;
  ports_[port].woken = true;
  woken_.push_back(static_cast<std::uint16_t>(port));
}

void Switch::check_balance() const { ROCI_DEBUG_ASSERT(bytes_in_ == bytes_out_ + held_bytes() + bytes_dropped_); }

// What comes in.

void Switch::receive(unsigned port, Frame* frame, Instant now) {
  if (frame->kind == FrameKind::kUnclassified) classify(*frame, config_.trust);
  if (frame->kind == FrameKind::kPfc) [[unlikely]] {
    on_pfc(port, *frame, now);
    return pool_.free(frame);
  }
  PriorityCounters& counters = ports_[port].counters[frame->priority];
  ++counters.rx_frames;
  counters.rx_bytes += frame->frame_bytes;
  bytes_in_ += frame->frame_bytes;
  frame->ingress_port = static_cast<std::uint16_t>(port);
  const std::uint32_t to = route(*frame);
  if (to == RoutingTable::kNoPort || to == port) [[unlikely]]
    return drop(port, frame, DropReason::kNoRoute);
  if (frame->frame_bytes > config_.max_frame_bytes) [[unlikely]]
    return drop(port, frame, DropReason::kTooLong);
  enqueue(to, frame, now);
  check_balance();
}

std::uint32_t Switch::route(const Frame& frame) const {
  return routes_.choose(frame.destination, frame.flow_hash, mix(number_ + 1));
}

/// A frame of `priority` would be the only one, and leave at once.
bool Switch::is_idle(Port& port, unsigned priority, Instant now) {
  if (port.backlogged != 0 || port.busy_until > now || port.told != port.xoff || port.refresh_due) return false;
  if (std::min(port.refresh_at, port.watchdog_at) <= now || port.storms != 0) return false;
  return !has_bit(port.pauses.mask(now), priority);
}

Passage Switch::pass(unsigned number, Frame* frame, Instant now) {
  if (frame->kind == FrameKind::kUnclassified) classify(*frame, config_.trust);
  if (frame->kind == FrameKind::kPfc) [[unlikely]]
    return {};
  const unsigned priority = frame->priority;
  const std::uint32_t bytes = frame->frame_bytes;
  const std::uint32_t to = route(*frame);
  if (to == RoutingTable::kNoPort || to == number || bytes > config_.max_frame_bytes) [[unlikely]]
    return {};
  Port& egress = ports_[to];
  if (!is_idle(egress, priority, now) || !buffer_.passes(number, priority, bytes)) return {};
  PriorityCounters& in = ports_[number].counters[priority];
  ++in.rx_frames;
  in.rx_bytes += bytes;
  bytes_in_ += bytes;
  frame->ingress_port = static_cast<std::uint16_t>(number);
  // Its queue was empty before and is after it, so it is not marked.
  queue_of(egress, priority).statistics().touch(bytes);
  PriorityCounters& out = egress.counters[priority];
  ++out.tx_frames;
  out.tx_bytes += bytes;
  bytes_out_ += bytes;
  check_balance();
  tell(*frame, egress, 0, now);
  return {.port = to, .transmission = transmit(egress, frame, now)};
}

void Switch::enqueue(unsigned number, Frame* frame, Instant now) {
  Port& port = ports_[number];
  const unsigned priority = frame->priority;
  EgressQueue& queue = queue_of(port, priority);
  if (has_bit(port.storms, priority) && config_.watchdog.action == WatchdogConfig::Action::kDrop) [[unlikely]]
    return drop(number, frame, DropReason::kWatchdog);
  const unsigned ingress = frame->ingress_port;
  const Admission admission = buffer_.admit(ingress, priority, frame->frame_bytes, queue.bytes());
  if (admission != Admission::kTaken) [[unlikely]] {
    if (admission != Admission::kTakenXoff)
      return drop(admission == Admission::kNoHeadroom ? ingress : number, frame, reason_of(admission));
    ports_[ingress].xoff |= bit(priority);
    wake(ingress);
  }
  if (config_.mark_at == MarkAt::kEnqueue && port.red.marks(priority, queue.bytes())) mark(port, *frame);
  queue.push(frame);
  queue.statistics().change(queue.bytes(), now);
  if (has_bit(port.backlogged, priority)) return;
  port.backlogged |= bit(priority);
  if (config_.watchdog.action != WatchdogConfig::Action::kOff) watch_stall(port, priority, now);
  wake(number);
}

EgressQueue& Switch::queue_of(Port& port, unsigned priority) {
  std::unique_ptr<EgressQueue>& queue = port.queues[priority];
  if (queue == nullptr) [[unlikely]] {
    const bool in_turn = config_.arbitration == Arbitration::kRoundRobin ||
                         (config_.arbitration == Arbitration::kLosslessRoundRobin && has_bit(config_.pfc, priority));
    queue = std::make_unique<EgressQueue>(in_turn ? static_cast<std::uint32_t>(ports_.size()) : 1, counted_since_);
  }
  return *queue;
}

void Switch::drop(unsigned port, Frame* frame, DropReason reason) {
  ++ports_[port].counters[frame->priority].drops[static_cast<std::size_t>(reason)];
  bytes_dropped_ += frame->frame_bytes;
  pool_.free(frame);
  check_balance();
}

void Switch::on_pfc(unsigned number, const Frame& frame, Instant now) {
  if (frame.stored_bytes < EthernetHeader::kSize + PfcFrame::kSize) return;
  const PfcFrame pfc = PfcFrame::read(frame.bytes + EthernetHeader::kSize);
  if (pfc.opcode != PfcFrame::kOpcode) return;
  Port& port = ports_[number];
  for (unsigned priority = 0; priority < egress::kPriorities; ++priority)
    if ((pfc.class_enable >> priority & 1) != 0 && has_bit(config_.pfc, priority))
      pause(port, priority, pfc.time_quanta[priority], now);
  wake(number);
}

void Switch::pause(Port& port, unsigned priority, std::uint16_t quanta, Instant now) {
  PriorityCounters& counters = port.counters[priority];
  ++(quanta == 0 ? counters.rx_resume : counters.rx_pause);
  Watch& watch = port.watches[priority];
  if (quanta == 0 || !has_bit(port.pauses.mask(now), priority)) watch.stalled_since = kNever;
  if (quanta != 0) watch.last_pause = now;
  if (has_bit(port.storms, priority)) return;
  port.pauses.pause(priority, egress::pause_quantum(port.config.rate_bps) * quanta, now);
  if (config_.watchdog.action != WatchdogConfig::Action::kOff) watch_stall(port, priority, now);
}

// What goes out.

Instant Switch::next_deadline(unsigned number, Instant now) {
  Port& port = ports_[number];
  Instant at = std::min(port.refresh_at, port.watchdog_at);
  if (port.told != port.xoff || port.refresh_due) {
    at = std::min(at, port.busy_until);
  } else if (port.backlogged != 0) {
    const bool may_send = (port.backlogged & ~port.pauses.mask(now)) != 0;
    const Instant allowed = may_send ? now : port.pauses.earliest_end(port.backlogged);
    at = std::min(at, std::max(port.busy_until, allowed));
  }
  return std::max(at, now);
}

Transmission Switch::advance(unsigned number, Instant now) {
  Port& port = ports_[number];
  if (std::min(port.refresh_at, port.watchdog_at) <= now) [[unlikely]]
    run_alarms(number, now);
  if (now < port.busy_until) return {};
  if (port.told != port.xoff || port.refresh_due) [[unlikely]]
    return send_pfc(port, now);
  const auto eligible = static_cast<std::uint8_t>(port.backlogged & ~port.pauses.mask(now));
  if (eligible == 0) return {};
  if (std::has_single_bit(port.backlogged)) return send_frame(port, lowest_bit(eligible), now);
  const unsigned priority = choose_priority(port, eligible);
  port.classes.on_sent(config_.prio_tc[priority], port.queues[priority]->front()->wire_bytes());
  return send_frame(port, priority, now);
}

/// Priorities of one class take turns.
unsigned Switch::choose_priority(Port& port, std::uint8_t eligible) {
  const auto classes_of = [this](std::uint8_t priorities) {
    std::uint8_t classes = 0;
    for (; priorities != 0; priorities &= static_cast<std::uint8_t>(priorities - 1))
      classes |= bit(config_.prio_tc[lowest_bit(priorities)]);
    return classes;
  };
  const unsigned traffic_class = port.classes.pick(classes_of(eligible), classes_of(port.backlogged));
  std::uint8_t& last = port.last_priority[traffic_class];
  do last = static_cast<std::uint8_t>((last + 1) % egress::kPriorities);
  while (!has_bit(eligible, last) || config_.prio_tc[last] != traffic_class);
  return last;
}

Transmission Switch::send_frame(Port& port, unsigned priority, Instant now) {
  EgressQueue& queue = *port.queues[priority];
  Frame* frame = queue.pop();
  const std::uint64_t behind = queue.bytes();
  queue.statistics().change(behind, now);
  if (behind == 0) port.backlogged &= static_cast<std::uint8_t>(~bit(priority));
  if (config_.mark_at == MarkAt::kDequeue && port.red.marks(priority, behind)) mark(port, *frame);
  PriorityCounters& counters = port.counters[priority];
  ++counters.tx_frames;
  counters.tx_bytes += frame->frame_bytes;
  bytes_out_ += frame->frame_bytes;
  release(*frame);
  check_balance();
  tell(*frame, port, behind, now);
  return transmit(port, frame, now);
}

void Switch::tell(Frame& frame, const Port& port, std::uint64_t queue_bytes, Instant now) {
  if (telemetry_ == nullptr) [[likely]]
    return;
  telemetry_->on_dequeue(
      frame, {.rate_bps = port.config.rate_bps, .tx_bytes = port.tx_bytes, .at = now, .queue_bytes = queue_bytes});
}

Transmission Switch::transmit(Port& port, Frame* frame, Instant now) {
  const std::uint32_t wire_bytes = frame->wire_bytes();
  port.tx_bytes += wire_bytes;
  port.busy_until = now + time_on_wire(port, wire_bytes);
  return {.frame = frame, .sent = port.busy_until, .arrives = port.busy_until + port.config.delay};
}

Duration Switch::time_on_wire(const Port& port, std::uint32_t wire_bytes) const {
  if (port.ps_per_byte != 0) [[likely]]
    return {static_cast<std::int64_t>(port.ps_per_byte * wire_bytes)};
  return egress::wire_time(wire_bytes, port.config.rate_bps);
}

void Switch::mark(Port& port, Frame& frame) {
  if (frame.l3_offset == 0) return;
  std::byte* l3 = frame.bytes + frame.l3_offset;
  const Ecn ecn = ecn_of(traffic_class_at(l3, frame.is_v4));
  if (ecn == Ecn::kNotEct || ecn == Ecn::kCe) return;
  mark_ce(l3, frame.is_v4);
  ++port.counters[frame.priority].marks;
}

void Switch::release(const Frame& frame) {
  if (!buffer_.release(frame.ingress_port, frame.priority, frame.frame_bytes)) [[likely]]
    return;
  Port& ingress = ports_[frame.ingress_port];
  ingress.xoff &= static_cast<std::uint8_t>(~bit(frame.priority));
  wake(frame.ingress_port);
}

/// Each frame tells of all classes that are or were stopped, so one timer repeats them all.
Transmission Switch::send_pfc(Port& port, Instant now) {
  PfcFrame pfc{.class_enable = static_cast<std::uint16_t>(port.told | port.xoff)};
  for (unsigned priority = 0; priority < egress::kPriorities; ++priority) {
    if ((pfc.class_enable >> priority & 1) == 0) continue;
    const bool stop = has_bit(port.xoff, priority);
    if (stop) pfc.time_quanta[priority] = config_.pause_quanta;
    ++(stop ? port.counters[priority].tx_pause : port.counters[priority].tx_resume);
  }
  port.told = port.xoff;
  port.refresh_due = false;
  const Duration pause_time = egress::pause_quantum(port.config.rate_bps) * config_.pause_quanta;
  port.refresh_at = port.xoff == 0 ? kNever : now + Duration{pause_time.ps / 2};

  Frame* frame = pool_.allocate(Frame::kMinBytes);
  write_pfc_frame(frame->bytes, port.config.mac, pfc);
  frame->frame_bytes = Frame::kMinBytes;
  frame->stored_bytes = Frame::kMinBytes;
  frame->kind = FrameKind::kPfc;
  return transmit(port, frame, now);
}

// Repetitions and the watchdog.

void Switch::run_alarms(unsigned number, Instant now) {
  Port& port = ports_[number];
  if (port.refresh_at <= now) {
    port.refresh_at = kNever;
    port.refresh_due = port.xoff != 0;
  }
  if (port.watchdog_at <= now) run_watchdog(number, now);
}

void Switch::watch_stall(Port& port, unsigned priority, Instant now) {
  Watch& watch = port.watches[priority];
  const auto stopped = static_cast<std::uint8_t>(port.pauses.mask(now) & port.backlogged);
  if (watch.stalled_since != kNever || !has_bit(stopped, priority)) return;
  watch.stalled_since = now;
  port.watchdog_at = std::min(port.watchdog_at, now + config_.watchdog.detection);
}

void Switch::run_watchdog(unsigned number, Instant now) {
  Port& port = ports_[number];
  const auto stopped = static_cast<std::uint8_t>(port.pauses.mask(now) & port.backlogged);
  port.watchdog_at = kNever;
  for (unsigned priority = 0; priority < egress::kPriorities; ++priority) {
    Watch& watch = port.watches[priority];
    if (!has_bit(port.storms, priority)) {
      if (!has_bit(stopped, priority)) watch.stalled_since = kNever;
      if (watch.stalled_since == kNever) continue;
      const Instant due = watch.stalled_since + config_.watchdog.detection;
      if (due <= now)
        begin_storm(number, priority, now);
      else
        port.watchdog_at = std::min(port.watchdog_at, due);
    }
    if (!has_bit(port.storms, priority)) continue;
    const Instant over = watch.last_pause + config_.watchdog.restoration;
    if (over <= now)
      port.storms &= static_cast<std::uint8_t>(~bit(priority));
    else
      port.watchdog_at = std::min(port.watchdog_at, over);
  }
}

void Switch::begin_storm(unsigned number, unsigned priority, Instant now) {
  Port& port = ports_[number];
  port.storms |= bit(priority);
  ++port.counters[priority].storms;
  port.watches[priority] = {.last_pause = now};
  port.pauses.pause(priority, {}, now);
  if (config_.watchdog.action != WatchdogConfig::Action::kDrop) return;
  EgressQueue& queue = *port.queues[priority];
  while (!queue.empty()) {
    Frame* frame = queue.pop();
    release(*frame);
    drop(number, frame, DropReason::kWatchdog);
  }
  queue.statistics().change(0, now);
  port.backlogged &= static_cast<std::uint8_t>(~bit(priority));
}

// What is known about it.

const QueueStatistics* Switch::queue_statistics(unsigned port, unsigned priority) const {
  const std::unique_ptr<EgressQueue>& queue = ports_[port].queues[priority];
  return queue == nullptr ? nullptr : &queue->statistics();
}

Duration Switch::paused(unsigned port, unsigned priority, Instant now) const {
  return ports_[port].pauses.total(priority, now) - ports_[port].paused_before[priority];
}

void Switch::reset_statistics(Instant now) {
  counted_since_ = now;
  for (Port& port : ports_) {
    port.counters = {};
    for (unsigned priority = 0; priority < egress::kPriorities; ++priority) {
      port.paused_before[priority] = port.pauses.total(priority, now);
      if (port.queues[priority] != nullptr) port.queues[priority]->statistics().reset(now);
    }
  }
}

}  // namespace roci::fabric
