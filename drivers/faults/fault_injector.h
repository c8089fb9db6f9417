// Judges each packet by the rows of a fault script. Pure: no I/O, no clock; frames and `now` come in, verdicts go out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "drivers/faults/fault_script.h"
#include "stack/base/random.h"
#include "stack/base/types.h"

namespace roci {

/// What is to be done with one frame. Of several rows that apply, drop wins; copies and delays add up.
struct FaultVerdict {
  static constexpr std::uint32_t kNoBit = UINT32_MAX;

  bool drop = false;
  bool mark_ce = false;
  std::uint32_t copies = 0;  ///< besides the frame itself
  Duration delay{};
  std::uint32_t reorder_by = 0;  ///< packets of the same flow that go first
  std::uint32_t corrupt_bit = kNoBit;
  Qpn dest_qpn;  ///< of the packet; 0 if the frame is none
  std::uint32_t l3_offset = 0;
  bool is_v4 = true;

  bool changes_frame() const { return mark_ce || corrupt_bit != kNoBit; }
};

/// One applied fault.
struct FaultRecord {
  std::uint64_t packet = 0;  ///< index of the frame among all that were judged, from 0
  Instant at{};
  FaultAction action = FaultAction::kDrop;
  FaultDirection direction = FaultDirection::kTx;
  std::uint8_t opcode = 0;
  Qpn dest_qpn;
  Psn psn;
  std::uint32_t row = 0;  ///< index in the script
};

/// Owner: whoever holds the baton of the port's worker; in simulation, the one thread.
class FaultInjector {
 public:
  static constexpr std::size_t kLogRecords = 4096;
  static constexpr std::size_t kMaxFlows = 4096;

  explicit FaultInjector(FaultScript script, std::size_t log_records = kLogRecords);

  /// Each row counts every packet it matches, whatever other rows do to it, and draws from its own generator.
  FaultVerdict judge(std::span<const std::byte> frame, FaultDirection direction, Instant now);
  /// Off: frames pass and are not counted.
  void enable(bool on) { enabled_ = on; }

  std::uint64_t judged() const { return judged_; }
  std::uint64_t applied(FaultAction action) const { return applied_[static_cast<std::size_t>(action)]; }
  /// The first faults applied, up to log_records; unlogged() is how many came after.
  std::span<const FaultRecord> log() const { return log_; }
  std::uint64_t unlogged() const { return unlogged_; }
  /// Flows beyond kMaxFlows, for which rows with a PSN match nothing.
  std::uint64_t flows_untracked() const { return flows_untracked_; }

 private:
  struct Packet;
  struct RowState {
    Random random;
    std::uint64_t matched = 0;
    std::uint64_t applied = 0;
  };
  struct Flow {
    bool used = false;
    std::uint32_t key = 0;
    Psn first;
  };

  Packet inspect(std::span<const std::byte> frame, FaultDirection direction);
  bool matches(const FaultRow& row, const Packet& packet) const;
  bool strikes(const FaultRow& row, RowState& state) const;
  void apply(const FaultRow& row, RowState& state, std::size_t frame_bytes, FaultVerdict& verdict);
  void record(std::size_t row, const Packet& packet, Instant now);
  const Flow* flow_of(const Packet& packet);

  FaultScript script_;
  std::vector<RowState> states_;
  std::vector<Flow> flows_;  ///< open addressing by key; empty if no row asks for PSNs
  std::vector<FaultRecord> log_;
  std::size_t log_records_;
  std::array<std::uint64_t, kFaultActions> applied_{};
  std::uint64_t judged_ = 0;
  std::uint64_t unlogged_ = 0;
  std::uint64_t flows_untracked_ = 0;
  bool enabled_ = true;
};

/// Makes the changes that the verdict asks for: the CE mark (with the IPv4 header checksum), then the flipped bit.
void apply_changes(std::span<std::byte> frame, const FaultVerdict& verdict);

}  // namespace roci
