#include "stack/engine/worker.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "stack/wire/icrc.h"
#include "stack/wire/packet.h"
#include "stack/wire/pfc_frame.h"

namespace roci {
namespace {

constexpr std::uint16_t kDefaultPkey = 0xffff;
/// The membership bit does not count when P_Keys are compared (IBTA 10.9.3).
constexpr std::uint16_t kPkeyMask = 0x7fff;
/// How often callers' turns look whether the port's attributes have changed.
constexpr std::uint64_t kTurnsPerPortLook = 64;
/// Frames that one QP may send before the next has its turn.
constexpr std::uint32_t kFramesPerFlow = 16;

/// memcpy of lengths that the compiler knows: for one that it does not, it makes a string instruction that takes longer
/// to begin than the copy. Halves of what is shorter may overlap.
[[gnu::always_inline]] inline void copy_header(std::array<std::byte, kHeaderCopyBytes>& to, const std::byte* from,
                                               std::size_t bytes) {
  constexpr std::size_t kHalf = kHeaderCopyBytes / 2;
  constexpr std::size_t kQuarter = kHalf / 2;
  const auto both_ends = [&](auto part) {
    std::memcpy(to.data(), from, part);
    std::memcpy(to.data() + bytes - part, from + bytes - part, part);
  };
  if (bytes >= kHalf) return both_ends(std::integral_constant<std::size_t, kHalf>());
  if (bytes >= kQuarter) return both_ends(std::integral_constant<std::size_t, kQuarter>());
  std::copy_n(from, bytes, to.data());
}

}  // namespace

Worker::Worker(Port& port, EventSink& events, KeyTable& keys, Counters& counters, std::uint32_t number)
    : port_(port),
      port_seen_(port.attributes()),
      events_(events),
      env_(keys, counters, number),
      qps_(port_seen_.qpn_block),
      gsi_(port, counters) {
  env_.gids = port_seen_.addresses;
  env_.route_source = &port;
  if (port_seen_.elides_payload) keys.elide_payload();
}

TurnResult Worker::turn(Instant now, TurnReason reason) {
  ++env_.counters.turns;
  if (reason == TurnReason::kBackground) ++env_.counters.turns_background;
  env_.now = now;
  port_.begin_turn(now, reason);
  look_at_port(reason);
  TurnResult result{};
  result.frames_received = receive(now);
  const bool all_received = result.frames_received < kMaxReceivedPerTurn;
  backlog_ = all_received ? 0 : backlog_ + result.frames_received;
  if (env_.egress.pfc != 0) [[unlikely]] {
    count_pauses(now);
    send_pfc(backlog_ >= kBacklogFrames, now);
  }
  answer_doorbells();
  // With frames still waiting, the answer that a deadline is about may be among them; but the wait has an end.
  if (all_received || backlog_ >= kLongBacklogFrames) strike_deadlines(now);
  result.frames_sent = transmit(now);
  result.more_to_do = !all_received || result.frames_sent >= kMaxSentPerTurn;
  result.waits_for_room = lacks_room_;
  result.at = now;
  port_.end_turn(now);
  result.next_deadline = next_deadline();
  deliver_events();
  return result;
}

void Worker::look_at_port(TurnReason reason) {
  if (reason != TurnReason::kBackground && env_.counters.turns % kTurnsPerPortLook != 0) return;
  if (!port_.take_change()) return;
  PortAttributes port = port_.attributes();
  if (port.link_up != port_seen_.link_up)
    env_.raise({.type = port.link_up ? AsyncEventType::kPortActive : AsyncEventType::kPortErr});
  if (port.addresses != port_seen_.addresses) env_.raise({.type = AsyncEventType::kGidChange});
  env_.gids = port.addresses;
  mac_ = port.mac;
  port_seen_ = std::move(port);
}

std::uint32_t Worker::receive(Instant now) {
  std::uint32_t total = 0;
  while (total < kMaxReceivedPerTurn) {
    const std::size_t count = port_.rx_burst(received_);
    // Most of a burst is for one QP: it is attended to once.
    Qp* touched = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
      Qp* qp = receive_frame(received_[i], now);
      if (qp == touched || qp == nullptr) continue;
      if (touched != nullptr) attend(*touched, now);
      touched = qp;
    }
    if (touched != nullptr) attend(*touched, now);
    port_.rx_release();
    total += static_cast<std::uint32_t>(count);
    if (count < received_.size()) break;
  }
  return total;
}

/// True where there is none.
bool Worker::has_right_icrc(const RxFrame& frame, const PacketView& view) const {
  if (port_seen_.elides_payload && view.payload_bytes > 0) return true;
  const std::byte* l3 = frame.data + view.l3_offset;
  return compute_icrc(l3, view.is_v4, view.icrc_offset - view.l3_offset) == load_icrc(frame.data + view.icrc_offset);
}

Qp* Worker::receive_frame(const RxFrame& frame, Instant now) {
  Counters& counters = env_.counters;
  // The frame may lie in memory that its sender can still write: what is checked must be what is used.
  alignas(64) std::array<std::byte, kHeaderCopyBytes> header;
  const std::size_t header_bytes = std::min<std::size_t>(frame.size, header.size());
  copy_header(header, frame.data, header_bytes);
  PacketView view;
  const ParseStatus status = parse_packet({header.data(), header_bytes}, frame.size, &view);
  if (status != ParseStatus::kOk) [[unlikely]] {
    if (status == ParseStatus::kPfc)
      on_mac_control({header.data(), header_bytes}, now);
    else
      count_unparsed(status);
    return nullptr;
  }
  if (!has_right_icrc(frame, view)) [[unlikely]] {
    ++counters.rx_icrc_encapsulated;
    return nullptr;
  }
  ++counters.rx_packets;
  counters.rx_bytes += frame.size;
  if ((view.bth.pkey & kPkeyMask) != (kDefaultPkey & kPkeyMask)) [[unlikely]] {
    ++counters.rx_bad_pkey;
    return nullptr;
  }
  const Inbound in{.view = view, .payload = frame.data + view.payload_offset, .now = now};
  Qp* qp = qps_.find(view.bth.dest_qpn);
  if (qp == nullptr) [[unlikely]] {
    receive_without_qp(in);
    return nullptr;
  }
  if (view.info->transport == Transport::kCnp) [[unlikely]]
    qp->on_cnp(in);
  else
    qp->on_packet(in);
  return qp;
}

void Worker::receive_without_qp(const Inbound& in) {
  Counters& counters = env_.counters;
  if (in.view.info->transport == Transport::kCnp) {
    ++counters.rp_cnp_ignored;
    return;
  }
  if (in.view.bth.dest_qpn.value == kGsiQpn) return gsi_.on_packet(in);
  if (in.view.bth.dest_qpn != kMulticastQpn) {
    ++counters.rx_unknown_qp;
    return;
  }
  const std::span<Qp* const> members = groups_.members(in.view.destination());
  if (members.empty()) ++counters.rx_no_group;
  for (Qp* qp : members) {
    qp->on_packet(in);
    attend(*qp, in.now);
  }
}

void Worker::attend(Qp& qp, Instant now) {
  if (const Instant at = qp.next_send(now); at != kNever) scheduler_.schedule(qp, at, now);
  deadlines_.arm(qp, qp.next_deadline());
}

void Worker::count_unparsed(ParseStatus status) {
  Counters& counters = env_.counters;
  switch (status) {
    case ParseStatus::kNotIp:
    case ParseStatus::kNotRoce:
    case ParseStatus::kArp:
      ++counters.rx_not_roce;
      break;
    case ParseStatus::kRoceV1:
      ++counters.rx_roce_v1;
      break;
    case ParseStatus::kTruncated:
      ++counters.rx_truncated;
      break;
    case ParseStatus::kFragment:
      ++counters.rx_fragment;
      break;
    case ParseStatus::kUnknownOpcode:
      ++counters.rx_unknown_opcode;
      break;
    default:
      ++counters.rx_malformed;
  }
}

void Worker::configure_egress(const egress::Settings& settings) {
  const PortAttributes attributes = port_.attributes();
  env_.egress = settings;
  scheduler_.configure(settings);
  mac_ = attributes.mac;
  quantum_ = egress::pause_quantum(std::max<std::uint64_t>(attributes.speed_bps, 1));
  pfc_sender_.configure(settings.pfc, attributes.speed_bps);
}

/// IEEE 802.1Qbb: the times of the priorities that the frame names, if PFC is on for them.
void Worker::on_mac_control(std::span<const std::byte> header, Instant now) {
  const std::uint8_t obeyed = env_.egress.pfc;
  PfcFrame pfc;
  if (header.size() >= EthernetHeader::kSize + PfcFrame::kSize)
    pfc = PfcFrame::read(header.data() + EthernetHeader::kSize);
  if (pfc.opcode != PfcFrame::kOpcode || (pfc.class_enable & obeyed) == 0) ++env_.counters.rx_pause_ignored;
  if (pfc.opcode != PfcFrame::kOpcode) return;
  for (unsigned n = 0; n < egress::kPriorities; ++n) {
    if ((pfc.class_enable & obeyed & 1u << n) == 0) continue;
    ++env_.counters.priority[n].rx_pause;
    scheduler_.pauses().pause(n, quantum_ * pfc.time_quanta[n], now);
  }
}

void Worker::count_pauses(Instant now) {
  for (unsigned left = env_.egress.pfc; left != 0; left &= left - 1) {
    const auto n = static_cast<unsigned>(std::countr_zero(left));
    env_.counters.priority[n].rx_pause_duration =
        static_cast<std::uint64_t>(scheduler_.pauses().total(n, now).ps / microseconds(1).ps);
  }
}

/// Goes ahead of everything, and is never paused.
void Worker::send_pfc(bool behind, Instant now) {
  Route* partner = port_.link_partner();
  if (partner == nullptr) return;
  const bool was_guarded = pfc_sender_.guarded();
  if (const std::optional<PfcFrame> pfc = pfc_sender_.update(behind, now)) pfc_due_ = pfc;
  if (!was_guarded && pfc_sender_.guarded()) ++env_.counters.tx_pause_storm_guard;
  std::array<TxSlot, 1> slot;
  if (!pfc_due_.has_value() || port_.tx_reserve(*partner, slot) == 0) return;
  write_pfc_frame(slot[0].data, mac_, *pfc_due_);
  port_.tx_commit(*partner, std::array{static_cast<std::uint32_t>(kPfcFrameBytes)});
  for (unsigned n = 0; n < egress::kPriorities; ++n)
    env_.counters.priority[n].tx_pause += pfc_due_->class_enable >> n & 1;
  pfc_due_.reset();
}

void Worker::ring(Qp& qp) {
  // Already on the list: whoever takes the list clears the mark before it looks at the queues.
  if (qp.rung.exchange(true, std::memory_order_seq_cst)) return;
  Qp* head = rung_.load(std::memory_order_relaxed);
  do {
    qp.next_rung = head;
  } while (!rung_.compare_exchange_weak(head, &qp, std::memory_order_seq_cst));
}

void Worker::answer_doorbells() {
  if (rung_.load(std::memory_order_relaxed) == nullptr) return;
  Qp* qp = rung_.exchange(nullptr, std::memory_order_seq_cst);
  while (qp != nullptr) {
    Qp* next = qp->next_rung;
    qp->rung.store(false, std::memory_order_seq_cst);
    qp->on_doorbell();
    activate(*qp);
    qp = next;
  }
}

void Worker::strike_deadlines(Instant now) {
  if (gsi_.next_deadline() <= now) [[unlikely]]
    gsi_.on_deadline(now);
  if (deadlines_.earliest() > now) return;
  while (Qp* qp = deadlines_.take_due(now)) {
    if (qp->next_deadline() <= now) qp->on_deadline(now, port_.peer_stalled(*qp->route()));
    attend(*qp, now);
  }
}

std::uint32_t Worker::transmit(Instant now) {
  lacks_room_ = false;
  std::uint32_t total = env_.cnps.empty() ? 0 : transmit_cnps(now);
  if (gsi_.has_queued()) [[unlikely]] {
    total += gsi_.transmit();
    lacks_room_ = lacks_room_ || gsi_.has_queued();
  }
  do total += transmit_ready(now, kMaxSentPerTurn - std::min(total, kMaxSentPerTurn));
  while (total < kMaxSentPerTurn && !lacks_room_ && scheduler_.unblock());
  // They go before those whose doorbell rings until the next turn.
  scheduler_.unblock();
  return total;
}

/// Sends from those that are ready, until there are none or `most` frames have left.
std::uint32_t Worker::transmit_ready(Instant now, std::uint32_t most) {
  std::uint32_t total = 0;
  while (total < most) {
    auto* qp = static_cast<Qp*>(scheduler_.take(now));
    if (qp == nullptr) break;
    if (qp->type() == QpType::kUd) [[unlikely]] {
      total += transmit_datagrams(*qp, now);
      continue;
    }
    if (!may_send(*qp, now)) continue;
    const Burst burst = transmit_burst(*qp, now);
    total += burst.frames;
    if (burst.has_room) {
      // Unless it is paced, a QP that stopped of itself has nothing more.
      if (burst.is_full || qp->pacer.limited())
        attend(*qp, now);
      else
        deadlines_.arm(*qp, qp->next_deadline());
      continue;
    }
    wait_for_room(*qp);
  }
  return total;
}

/// The QP waits for the next turn, and does not stand in the way of QPs to other peers.
void Worker::wait_for_room(Qp& qp) {
  ++env_.counters.tx_no_room;
  lacks_room_ = true;
  scheduler_.block(qp);
}

/// A burst to one destination; those to others have their turn later.
std::uint32_t Worker::transmit_datagrams(Qp& qp, Instant now) {
  if (!qp.choose_route()) return 0;
  const Burst burst = transmit_burst(qp, now);
  qp.forget_route();
  if (burst.has_room)
    attend(qp, now);
  else
    wait_for_room(qp);
  return burst.frames;
}

/// CNPs go before all data, and PFC of the data's priority does not hold them back.
std::uint32_t Worker::transmit_cnps(Instant now) {
  const unsigned priority = env_.egress.priority_of_dscp(env_.egress.cnp_dscp);
  if ((scheduler_.pauses().mask(now) >> priority & 1) != 0) return 0;
  std::uint32_t sent = 0;
  std::erase_if(env_.cnps, [&](Qp* qp) {
    std::array<TxSlot, 1> slot;
    if (port_.tx_reserve(*qp->route(), slot) == 0) {
      lacks_room_ = true;
      return false;
    }
    const std::array<std::uint32_t, 1> size{qp->build_cnp(slot[0].data)};
    port_.tx_commit(*qp->route(), size);
    ++env_.counters.tx_packets;
    env_.counters.tx_bytes += size[0];
    ++sent;
    return true;
  });
  return sent;
}

/// False for a QP that has no route yet, or whose pacer says later: it is scheduled for then.
bool Worker::may_send(Qp& qp, Instant now) {
  if (qp.route() == nullptr) return false;
  if (!qp.pacer.limited()) return true;
  const Instant at = qp.next_send(now);
  if (at <= now) return true;
  if (at != kNever) scheduler_.schedule(qp, at, now);
  return false;
}

Worker::Burst Worker::transmit_burst(Qp& qp, Instant now) {
  std::array<TxSlot, kFramesPerFlow> slots;
  std::array<std::uint32_t, kFramesPerFlow> sizes;
  const std::size_t room = port_.tx_reserve(*qp.route(), slots);
  if (room == 0) return {};
  std::uint32_t count = 0;
  std::uint32_t bytes = 0;
  while (count < room) {
    const std::uint32_t size = qp.next_packet(now, slots[count].data);
    if (size == 0) break;
    bytes += size;
    sizes[count++] = size;
  }
  port_.tx_commit(*qp.route(), {sizes.data(), count});
  qp.end_burst(now);
  scheduler_.on_sent(qp, bytes + count * egress::kWireOverheadBytes);
  env_.counters.tx_packets += count;
  env_.counters.tx_bytes += bytes;
  env_.counters.priority[qp.priority].tx_packets += count;
  return {.frames = count, .has_room = true, .is_full = count == room};
}

void Worker::deliver_events() {
  for (Cq* cq : env_.touched_cqs)
    if (cq->take_event(env_.worker)) events_.on_completion_event(*cq);
  env_.touched_cqs.clear();
  for (const AsyncEvent& event : env_.events) events_.on_async_event(event);
  env_.events.clear();
}

void Worker::forget(Qp& qp) {
  answer_doorbells();
  scheduler_.remove(qp);
  std::erase(env_.cnps, &qp);
  deadlines_.remove(qp);
}

}  // namespace roci
