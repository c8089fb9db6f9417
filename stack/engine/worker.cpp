#include "stack/engine/worker.h"

#include <algorithm>
#include <cstring>

#include "stack/wire/icrc.h"
#include "stack/wire/packet.h"

namespace roci {
namespace {

constexpr std::uint16_t kDefaultPkey = 0xffff;
/// The membership bit does not count when P_Keys are compared (IBTA 10.9.3).
constexpr std::uint16_t kPkeyMask = 0x7fff;
/// Frames that one QP may send before the next has its turn.
constexpr std::uint32_t kFramesPerFlow = 16;

}  // namespace

Worker::Worker(Port& port, EventSink& events, Counters& counters)
    : port_(port), events_(events), env_(counters), qps_(port.attributes().qpn_block) {}

TurnResult Worker::turn(Instant now, TurnReason reason) {
  ++env_.counters.turns;
  if (reason == TurnReason::kBackground) ++env_.counters.turns_background;
  env_.now = now;
  port_.begin_turn(now, reason);
  TurnResult result{};
  result.frames_received = receive(now);
  answer_doorbells();
  // With frames still waiting, the answer that a deadline is about may be among them.
  const bool all_received = result.frames_received < kMaxFramesPerTurn;
  if (all_received) strike_deadlines(now);
  result.frames_sent = transmit(now);
  result.more_to_do = !all_received || result.frames_sent >= kMaxFramesPerTurn;
  result.waits_for_room = lacks_room_;
  result.at = now;
  port_.end_turn(now);
  result.next_deadline = next_deadline();
  deliver_events();
  return result;
}

std::uint32_t Worker::receive(Instant now) {
  std::array<RxFrame, kBurst> frames;
  std::uint32_t total = 0;
  while (total < kMaxFramesPerTurn) {
    const std::size_t count = port_.rx_burst(frames);
    for (std::size_t i = 0; i < count; ++i) receive_frame(frames[i], now);
    port_.rx_release();
    total += static_cast<std::uint32_t>(count);
    if (count < frames.size()) break;
  }
  return total;
}

void Worker::receive_frame(const RxFrame& frame, Instant now) {
  Counters& counters = env_.counters;
  // The frame may lie in memory that its sender can still write: what is checked must be what is used.
  alignas(64) std::array<std::byte, kHeaderCopyBytes> header;
  const std::size_t header_bytes = std::min<std::size_t>(frame.size, header.size());
  std::memcpy(header.data(), frame.data, header_bytes);
  PacketView view;
  const ParseStatus status = parse_packet({header.data(), header_bytes}, frame.size, &view);
  if (status != ParseStatus::kOk) [[unlikely]]
    return count_unparsed(status);
  const std::byte* l3 = frame.data + view.l3_offset;
  const std::uint32_t icrc = compute_icrc(l3, view.is_v4, view.icrc_offset - view.l3_offset);
  if (icrc != load_icrc(frame.data + view.icrc_offset)) [[unlikely]] {
    ++counters.rx_icrc_encapsulated;
    return;
  }
  ++counters.rx_packets;
  counters.rx_bytes += frame.size;
  if ((view.bth.pkey & kPkeyMask) != (kDefaultPkey & kPkeyMask)) [[unlikely]] {
    ++counters.rx_bad_pkey;
    return;
  }
  const bool is_cnp = view.info->transport == Transport::kCnp;
  Qp* qp = qps_.find(view.bth.dest_qpn);
  if (qp == nullptr) [[unlikely]] {
    ++(is_cnp ? counters.rp_cnp_ignored : counters.rx_unknown_qp);
    return;
  }
  const Inbound in{.view = view, .payload = frame.data + view.payload_offset, .now = now};
  if (is_cnp) [[unlikely]]
    qp->on_cnp(in);
  else
    qp->on_packet(in);
  attend(*qp, now);
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
    case ParseStatus::kPfc:
      ++counters.rx_not_roce;
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
  if (deadlines_.earliest() > now) return;
  while (Qp* qp = deadlines_.take_due(now)) {
    if (qp->next_deadline() <= now) qp->on_deadline(now, port_.peer_stalled(*qp->route()));
    attend(*qp, now);
  }
}

std::uint32_t Worker::transmit(Instant now) {
  lacks_room_ = false;
  std::uint32_t total = env_.cnps.empty() ? 0 : transmit_cnps(now);
  while (total < kMaxFramesPerTurn) {
    auto* qp = static_cast<Qp*>(scheduler_.take(now));
    if (qp == nullptr) break;
    const Instant at = qp->route() == nullptr ? kNever : qp->next_send(now);
    if (at > now) {
      if (at != kNever) scheduler_.schedule(*qp, at, now);
      continue;
    }
    bool has_room = true;
    total += transmit_burst(*qp, now, &has_room);
    if (has_room) {
      attend(*qp, now);
      continue;
    }
    // It waits for the next turn, and does not stand in the way of QPs to other peers.
    ++env_.counters.tx_no_room;
    lacks_room_ = true;
    scheduler_.block(*qp);
  }
  scheduler_.unblock();
  return total;
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

std::uint32_t Worker::transmit_burst(Qp& qp, Instant now, bool* has_room) {
  std::array<TxSlot, kFramesPerFlow> slots;
  std::array<std::uint32_t, kFramesPerFlow> sizes;
  const std::size_t room = port_.tx_reserve(*qp.route(), slots);
  std::uint32_t count = 0;
  std::uint32_t bytes = 0;
  while (count < room) {
    const std::uint32_t size = qp.next_packet(now, slots[count].data);
    if (size == 0) break;
    bytes += size;
    sizes[count++] = size;
  }
  if (room > 0) port_.tx_commit(*qp.route(), {sizes.data(), count});
  *has_room = room > 0;
  qp.end_burst(now);
  scheduler_.on_sent(qp, bytes + count * egress::kWireOverheadBytes);
  env_.counters.tx_packets += count;
  env_.counters.tx_bytes += bytes;
  return count;
}

void Worker::deliver_events() {
  for (Cq* cq : env_.touched_cqs)
    if (cq->take_event()) events_.on_completion_event(*cq);
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
