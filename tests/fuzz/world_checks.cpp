// What holds after each turn, and at the end.
#include <algorithm>

#include "tests/fuzz/require.h"
#include "tests/fuzz/world.h"

namespace roci::fuzz {
namespace {

constexpr std::uint32_t kMostTurns = 64;
constexpr std::uint32_t kDeadlinesAtEnd = 4;

std::uint64_t executed(const Counters& c) {
  return c.rx_send_requests + c.rx_write_requests + c.rx_read_requests + c.rx_atomic_requests;
}

/// Frames that did not become packets.
std::uint64_t dropped_before_packet(const Counters& c) {
  return c.rx_icrc_encapsulated + c.rx_not_roce + c.rx_malformed + c.rx_fragment + c.rx_unknown_opcode + c.rx_roce_v1 +
         c.rx_pause_ignored + c.rx_truncated;
}

/// Packets that the worker or the QP's door turned away; there is nobody behind QP1.
std::uint64_t dropped_at_door(const Counters& c) {
  return c.rp_cnp_ignored + c.rx_bad_pkey + c.rx_unknown_qp + c.rx_unknown_opcode + c.rx_qp_not_ready +
         c.rx_wrong_source + c.rx_wrong_destination + c.rx_mads_dropped;
}

std::uint64_t refused(const Counters& c) {
  return c.out_of_buffer + c.resp_local_length_error + c.resp_remote_access_errors + c.resp_remote_invalid_request +
         c.resp_remote_operational_errors;
}

}  // namespace

void World::deliver(std::span<const std::byte> frame) {
  PacketView view;
  const bool parses = parse_packet(frame.first(std::min(frame.size(), kHeaderCopyBytes)),
                                   static_cast<std::uint32_t>(frame.size()), &view) == ParseStatus::kOk;
  const Endpoint* endpoint = parses ? find(view.bth.dest_qpn) : nullptr;
  std::optional<WrOpcode> oldest;
  Target awaited;
  if (endpoint != nullptr) {
    awaited = target(*endpoint, 0);
    if (const SendWqe* wqe = endpoint->qp->requester().oldest(); wqe != nullptr) oldest = wqe->opcode;
  }
  const Counters before = counters_;
  port_.feed(frame);
  // Its own completions and answers come in this very turn.
  const TurnResult result = device_->worker().turn(now_, TurnReason::kPoll);
  require(result.frames_received == 1 && !port_.has_frame(), "a turn takes a frame that lies ready");
  check_counted(parses, view, before);
  if (endpoint != nullptr) {
    note_executed(view, before);
    check_response(view, awaited, oldest);
  }
  check_sent();
  turn();
}

/// A response that moves the oldest request on is one that this request waits for, of the right length.
void World::check_response(const PacketView& view, const Target& awaited, std::optional<WrOpcode> oldest) const {
  const bool is_read = view.info->operation == Operation::kRdmaReadResponse;
  const bool is_atomic = view.info->operation == Operation::kAtomicAcknowledge;
  const auto endpoint =
      std::find_if(qps_.begin(), qps_.end(), [&](const Endpoint& e) { return e.qp->qpn() == view.bth.dest_qpn; });
  // One that comes later acknowledges what is before it, and may then be the oldest's.
  if ((!is_read && !is_atomic) || view.bth.psn != awaited.response_psn) return;
  if (endpoint->qp->requester().unacked_psn() == awaited.response_psn) return;
  require(oldest.has_value(), "a response moves on what is outstanding");
  if (is_read) {
    require(*oldest == WrOpcode::kRdmaRead, "a READ response is for a READ");
    require(view.payload_bytes == std::min(awaited.read_left, awaited.mtu_bytes), "a READ response has its length");
  } else {
    require(*oldest == WrOpcode::kAtomicCmpSwp || *oldest == WrOpcode::kAtomicFetchAdd,
            "an atomic response is for an atomic");
  }
}

/// Every frame has a counter. A response that a READ or an atomic takes in has none of its own, so of responses only
/// the drops before them are known.
void World::check_counted(bool parses, const PacketView& view, const Counters& before) const {
  const std::uint64_t packets = counters_.rx_packets - before.rx_packets;
  if (packets == 0) {
    require(dropped_before_packet(counters_) == dropped_before_packet(before) + 1,
            "a frame that is no packet has one counter");
    require(executed(counters_) == executed(before) && refused(counters_) == refused(before),
            "a frame that is no packet does nothing");
    return;
  }
  require(packets == 1 && parses, "a packet is counted once");
  const std::uint64_t at_door = dropped_at_door(counters_) - dropped_at_door(before);
  require(at_door <= 1, "a packet is dropped once");
  if (at_door == 1 || !view.info->is_request()) {
    require(executed(counters_) == executed(before), "what is dropped or answers us is not executed");
    return;
  }
  const std::uint64_t fate = executed(counters_) - executed(before) + refused(counters_) - refused(before) +
                             counters_.duplicate_request - before.duplicate_request + counters_.out_of_sequence -
                             before.out_of_sequence;
  require(fate >= 1, "a request is executed, refused, a duplicate or ahead");
}

void World::note_executed(const PacketView& view, const Counters& before) {
  Endpoint* endpoint = find(view.bth.dest_qpn);
  if (!view.info->is_request() || view.bth.psn != endpoint->expected_psn) return;
  if (executed(counters_) == executed(before)) return;
  std::uint32_t packets = 1;
  switch (view.info->operation) {
    case Operation::kRdmaWrite:
      note_write(*endpoint, view);
      break;
    case Operation::kRdmaReadRequest: {
      const Reth reth = view.reth();
      check_allowed(*endpoint, reth.rkey, reth.va, reth.dma_length, kAccessRemoteRead);
      packets = std::max(1u, (reth.dma_length + endpoint->qp->mtu() - 1) / endpoint->qp->mtu());
      break;
    }
    case Operation::kCompareSwap:
    case Operation::kFetchAdd: {
      const AtomicEth atomic = view.atomic_eth();
      require(atomic.va % sizeof(std::uint64_t) == 0, "an atomic is aligned");
      check_allowed(*endpoint, atomic.rkey, atomic.va, sizeof(std::uint64_t), kAccessRemoteAtomic);
      break;
    }
    default:
      break;
  }
  endpoint->expected_psn = endpoint->expected_psn + packets;
  if (view.info->is_last()) endpoint->msn = (endpoint->msn + 1) & Psn::kMask;
}

/// The key of a request that was executed opens all that it asks for (IBTA 10.6.7.2).
void World::check_allowed(const Endpoint& endpoint, RKey rkey, std::uint64_t va, std::uint64_t bytes,
                          std::uint32_t right) const {
  require((endpoint.qp->attr().access_flags & right) != 0, "the QP allows what is executed");
  if (bytes == 0) return;
  const auto region = std::find_if(regions_.begin(), regions_.end(),
                                   [rkey](const Region& r) { return r.mr != nullptr && r.mr->key == rkey.value; });
  require(region != regions_.end() && region->pd == endpoint.pd, "the key of what is executed is the PD's");
  require((region->mr->access & right) != 0, "the region allows what is executed");
  const std::uint64_t offset = va - region->mr->iova;
  require(offset <= region->mr->length && bytes <= region->mr->length - offset,
          "what is executed is within the region");
}

/// A WRITE has rights to all of itself from its first packet on, and packets as IBTA 9.7.4.1.6 has them.
void World::note_write(Endpoint& endpoint, const PacketView& view) {
  const std::uint32_t bytes = view.payload_bytes;
  const std::uint32_t mtu = endpoint.qp->mtu();
  if (view.info->is_first()) {
    const Reth reth = view.reth();
    check_allowed(endpoint, reth.rkey, reth.va, reth.dma_length, kAccessRemoteWrite);
    endpoint.write_va = reth.va;
    endpoint.write_rkey = reth.rkey;
    endpoint.write_left = reth.dma_length;
  }
  check_allowed(endpoint, endpoint.write_rkey, endpoint.write_va, bytes, kAccessRemoteWrite);
  if (view.info->is_last())
    require(bytes == endpoint.write_left && bytes <= mtu, "a WRITE is as long as it said");
  else
    require(bytes == mtu && bytes < endpoint.write_left, "a WRITE goes on in full packets");
  endpoint.write_va += bytes;
  endpoint.write_left -= bytes;
}

void World::turn() {
  Worker& worker = device_->worker();
  for (std::uint32_t turns = 0;; ++turns) {
    require(turns < kMostTurns, "the work of one moment ends");
    const TurnResult result = worker.turn(now_, TurnReason::kPoll);
    take_completions();
    check_sent();
    const bool waits = result.waits_for_room && port_.room_frames > 0;
    if (!result.more_to_do && !waits && !worker.has_rung()) break;
  }
  require(worker.next_deadline() > now_, "no deadline is left behind");
}

void World::check_sent() {
  for (const SentPacket& packet : port_.take_sent()) {
    const auto sender = std::find_if(qps_.begin(), qps_.end(), [&packet](const Endpoint& endpoint) {
      return endpoint.qp->attr().dest_qpn == packet.dest_qpn;
    });
    require(sender != qps_.end(), "what is sent is for a peer's QP");
    require(packet.destination == sender->qp->attr().av.dgid, "what is sent is for the QP's peer");
    require(packet.info->transport == Transport::kRc, "an RC QP speaks RC");
    if (!packet.aeth) continue;
    require(packet.aeth->msn == sender->msn, "the MSN counts the messages executed");
    if (packet.info->operation != Operation::kAcknowledge) continue;
    const AethKind kind = aeth_kind(packet.aeth->syndrome);
    if (kind == AethKind::kAck)
      require(packet.psn.before(sender->expected_psn), "what is acknowledged was executed");
    else if (packet.aeth->syndrome == nak_syndrome(NakCode::kPsnSequenceError))
      require(packet.psn == sender->expected_psn, "a sequence NAK asks for what is expected");
  }
}

void World::take_completions() {
  if (counters_.cq_overflow > 0) ledger_.note_overrun();
  std::array<Cqe, 32> cqes;
  for (std::size_t count = cq_->poll(cqes); count > 0; count = cq_->poll(cqes)) {
    for (std::size_t i = 0; i < count; ++i) {
      const Endpoint* endpoint = find(cqes[i].qpn);
      require(endpoint != nullptr, "a CQE names a QP");
      ledger_.complete(cqes[i], number_of(*endpoint));
    }
  }
  for (std::uint32_t i = 0; i < qps_.size(); ++i) ledger_.retire_sends(i, qps_[i].qp->sq().outstanding());
}

void World::update_permissions() {
  GuardedMemory& guarded = memory();
  guarded.check();
  guarded.forbid_all();
  for (const Region& region : regions_) {
    if (region.mr == nullptr) continue;
    const std::uint32_t changing = region.mr->access & (kAccessRemoteWrite | kAccessRemoteAtomic);
    for (const Endpoint& endpoint : qps_)
      if (endpoint.pd == region.pd && (endpoint.qp->attr().access_flags & changing) != 0)
        guarded.allow(region.mr->base, region.mr->length);
  }
  ledger_.for_each_open([&](const WorkRequest& request) {
    if (!request.may_write) return;
    for (const Sge& sge : request.sges) {
      for (const Region& region : regions_) {
        if (region.mr == nullptr || region.mr->key != sge.lkey.value) continue;
        if ((region.mr->access & kAccessLocalWrite) == 0) continue;
        if (!request.is_shared && region.pd != qps_[request.qp].pd) continue;
        const std::uint64_t offset = sge.addr - region.mr->iova;
        if (offset > region.mr->length) continue;
        guarded.allow(region.mr->base + offset, std::min<std::uint64_t>(sge.length, region.mr->length - offset));
      }
    }
  });
}

void World::end() {
  step_link(0);
  for (std::uint32_t i = 0; i < kDeadlinesAtEnd; ++i) step_time(255);
  for (std::uint32_t i = 0; i < qps_.size(); ++i) {
    if (qps_[i].qp->state() == QpState::kReset) continue;
    move_to(i, QpState::kErr);
    turn();
    require(qps_[i].qp->sq().outstanding() == 0, "a QP in ERR has no send requests left");
    require(ledger_.sends_left(i) == 0 || ledger_.overrun(), "each send request has completed");
    require(ledger_.receives_left(i) == 0 || ledger_.overrun(), "each receive request has completed");
  }
  const std::size_t waiting = srq_->queue.size();
  require(waiting <= ledger_.shared_left(), "what waits in the SRQ has not completed");
  require(ledger_.shared_left() - waiting <= srq_resets_ || ledger_.overrun(),
          "what was taken from the SRQ has completed");
  update_permissions();
}

}  // namespace roci::fuzz
