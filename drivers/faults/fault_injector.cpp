#include "drivers/faults/fault_injector.h"

#include <algorithm>
#include <utility>

#include "stack/wire/headers.h"
#include "stack/wire/opcodes.h"
#include "stack/wire/packet.h"
#include "stack/wire/traffic_class.h"

namespace roci {
namespace {

/// Random corruption leaves the Ethernet header alone: past that a switch would have dropped the frame.
constexpr std::uint32_t kEthernetBits = 14 * 8;

}  // namespace

struct FaultInjector::Packet {
  bool is_roce = false;
  PacketView view;
  FaultDirection direction = FaultDirection::kTx;
  AethKind acknowledge = AethKind::kReserved;
  bool knows_psn_offset = false;
  std::uint32_t psn_offset = 0;
};

FaultInjector::FaultInjector(FaultScript script, std::size_t log_records)
    : script_(std::move(script)), log_records_(log_records) {
  log_.reserve(log_records);
  states_.reserve(script_.rows.size());
  bool wants_psn = false;
  for (std::size_t i = 0; i < script_.rows.size(); ++i) {
    states_.push_back({.random = Random(script_.seed, i)});
    wants_psn |= !script_.rows[i].any_psn;
  }
  if (wants_psn) flows_.resize(kMaxFlows);
}

const FaultInjector::Flow* FaultInjector::flow_of(const Packet& packet) {
  const std::uint32_t key = packet.view.bth.dest_qpn.value << 2 | (packet.view.info->is_response() ? 2u : 0u) |
                            (packet.direction == FaultDirection::kTx ? 1u : 0u);
  const std::size_t start = key * 0x9e37'79b9u;
  for (std::size_t i = 0; i < kMaxFlows; ++i) {
    Flow& flow = flows_[(start + i) % kMaxFlows];
    if (!flow.used) flow = {.used = true, .key = key, .first = packet.view.bth.psn};
    if (flow.key == key) return &flow;
  }
  ++flows_untracked_;
  return nullptr;
}

FaultInjector::Packet FaultInjector::inspect(std::span<const std::byte> frame, FaultDirection direction) {
  Packet packet{.direction = direction};
  const std::span<const std::byte> header = frame.first(std::min<std::size_t>(frame.size(), kHeaderCopyBytes));
  packet.is_roce = parse_packet(header, static_cast<std::uint32_t>(frame.size()), &packet.view) == ParseStatus::kOk;
  if (!packet.is_roce) return packet;
  if (packet.view.info->operation == Operation::kAcknowledge)
    packet.acknowledge = aeth_kind(packet.view.aeth().syndrome);
  if (flows_.empty()) return packet;
  if (const Flow* flow = flow_of(packet); flow != nullptr) {
    packet.knows_psn_offset = true;
    packet.psn_offset = (packet.view.bth.psn.value() - flow->first.value()) & Psn::kMask;
  }
  return packet;
}

bool FaultInjector::matches(const FaultRow& row, const Packet& packet) const {
  if (!(packet.direction == FaultDirection::kTx ? row.tx : row.rx)) return false;
  if (!packet.is_roce) return !row.any_opcode && row.opcode.not_roce && row.any_qp && row.any_psn;
  if (!row.any_opcode) {
    if (!row.opcode.opcodes.test(packet.view.bth.opcode)) return false;
    if (packet.view.info->operation == Operation::kAcknowledge) {
      const AethKind kind = packet.acknowledge;
      const bool named = kind == AethKind::kAck      ? row.opcode.acks
                         : kind == AethKind::kRnrNak ? row.opcode.rnr_naks
                                                     : row.opcode.naks;
      if (!named) return false;
    }
  }
  if (!row.any_qp && packet.view.bth.dest_qpn != row.qp) return false;
  if (row.any_psn) return true;
  return packet.knows_psn_offset && packet.psn_offset >= row.psn_first && packet.psn_offset <= row.psn_last;
}

bool FaultInjector::strikes(const FaultRow& row, RowState& state) const {
  const std::uint64_t match = ++state.matched;
  if (match < row.nth || (match - row.nth) % row.every != 0) return false;
  if (!state.random.chance(row.rate) || state.applied >= row.times) return false;
  ++state.applied;
  return true;
}

void FaultInjector::apply(const FaultRow& row, RowState& state, std::size_t frame_bytes, FaultVerdict& verdict) {
  switch (row.action) {
    case FaultAction::kDrop:
      verdict.drop = true;
      break;
    case FaultAction::kDuplicate:
      verdict.copies += row.copies;
      break;
    case FaultAction::kDelay: {
      const Duration spread = row.delay_most - row.delay_least;
      const std::uint64_t extra = state.random.below(static_cast<std::uint64_t>(spread.ps) + 1);
      verdict.delay = verdict.delay + row.delay_least + Duration{static_cast<std::int64_t>(extra)};
      break;
    }
    case FaultAction::kReorder:
      verdict.reorder_by = std::max(verdict.reorder_by, row.reorder_by);
      break;
    case FaultAction::kCorrupt: {
      const auto bits = static_cast<std::uint32_t>(frame_bytes * 8);
      const std::uint32_t first = std::min(kEthernetBits, bits);
      if (row.bit != FaultRow::kRandomBit)
        verdict.corrupt_bit = row.bit;
      else if (first < bits)
        verdict.corrupt_bit = first + static_cast<std::uint32_t>(state.random.below(bits - first));
      break;
    }
    case FaultAction::kMarkCe:
      verdict.mark_ce = true;
  }
}

void FaultInjector::record(std::size_t row, const Packet& packet, Instant now) {
  const FaultAction action = script_.rows[row].action;
  ++applied_[static_cast<std::size_t>(action)];
  if (log_.size() >= log_records_) {
    ++unlogged_;
    return;
  }
  log_.push_back({.packet = judged_ - 1,
                  .at = now,
                  .action = action,
                  .direction = packet.direction,
                  .opcode = packet.is_roce ? packet.view.bth.opcode : std::uint8_t{0},
                  .dest_qpn = packet.is_roce ? packet.view.bth.dest_qpn : Qpn{},
                  .psn = packet.is_roce ? packet.view.bth.psn : Psn{},
                  .row = static_cast<std::uint32_t>(row)});
}

FaultVerdict FaultInjector::judge(std::span<const std::byte> frame, FaultDirection direction, Instant now) {
  FaultVerdict verdict;
  if (!enabled_) return verdict;
  const Packet packet = inspect(frame, direction);
  ++judged_;
  if (packet.is_roce) {
    verdict.dest_qpn = packet.view.bth.dest_qpn;
    verdict.l3_offset = packet.view.l3_offset;
    verdict.is_v4 = packet.view.is_v4;
  }
  for (std::size_t i = 0; i < script_.rows.size(); ++i) {
    const FaultRow& row = script_.rows[i];
    if (!matches(row, packet) || !strikes(row, states_[i])) continue;
    apply(row, states_[i], frame.size(), verdict);
    record(i, packet, now);
  }
  // Only a packet has a congestion field.
  verdict.mark_ce &= packet.is_roce;
  return verdict;
}

void apply_changes(std::span<std::byte> frame, const FaultVerdict& verdict) {
  if (verdict.mark_ce) mark_ce(frame.data() + verdict.l3_offset, verdict.is_v4);
  if (verdict.corrupt_bit / 8 < frame.size())
    frame[verdict.corrupt_bit / 8] ^= std::byte{0x80} >> static_cast<int>(verdict.corrupt_bit % 8);
}

}  // namespace roci
