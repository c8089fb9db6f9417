// What is to go wrong: rows `action match...`, as a file states them.
//
//     # the second middle packet of any WRITE, once; then one ACK in ten, for ever
//     drop opcode=RC_WRITE_MIDDLE nth=2 dir=tx
//     drop opcode=ack rate=10%
//     seed=7
//
// Actions: drop, duplicate[=COPIES], delay=TIME or delay=TIME..TIME, reorder=PACKETS, corrupt[=BIT|random], mark-ce.
// Matches, all of which must hold: opcode=NAME[,NAME...] (an opcode or a group), qp=QPN (the packet's destination),
// psn=N or psn=N..N (counted from the first PSN seen of that flow), dir=tx|rx; then, of the packets that match, nth=N
// (from the Nth on), every=N, rate=P or rate=P%, times=N (at most so often; 1 with nth alone, else without end).
//
// Groups: any, request, response, send, write, read, read-response, atomic, atomic-response, ack, nak, rnr-nak, cnp;
// and not-roce for frames that are no RoCE v2 packet, which nothing else matches. A flow is the requests, or the
// responses, to one QP in one direction. BIT counts from the frame's first bit on the wire.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stack/base/types.h"

namespace roci {

enum class FaultAction : std::uint8_t { kDrop, kDuplicate, kDelay, kReorder, kCorrupt, kMarkCe };
inline constexpr std::size_t kFaultActions = 6;
std::string_view fault_action_name(FaultAction action);

/// As seen by the port that has the faults.
enum class FaultDirection : std::uint8_t { kTx, kRx };

/// Which packets a row is about, by opcode. An ACKNOWLEDGE must also have one of the named kinds of syndrome.
struct OpcodeMatch {
  std::bitset<256> opcodes;
  bool acks = false;
  bool rnr_naks = false;
  bool naks = false;
  bool not_roce = false;  ///< frames that are no RoCE v2 packet
};

/// One row. Counts are packets; offsets and PSNs wrap at 2^24.
struct FaultRow {
  static constexpr std::uint32_t kRandomBit = UINT32_MAX;

  FaultAction action = FaultAction::kDrop;
  std::uint32_t line = 0;  ///< in the file, from 1

  std::uint32_t copies = 1;  ///< duplicate
  Duration delay_least{};    ///< delay
  Duration delay_most{};
  std::uint32_t reorder_by = 0;    ///< reorder: leaves after this many later packets of its flow
  std::uint32_t bit = kRandomBit;  ///< corrupt: counted from the frame's first bit on the wire

  bool any_opcode = true;
  OpcodeMatch opcode;
  bool any_qp = true;
  Qpn qp;
  bool any_psn = true;
  std::uint32_t psn_first = 0;  ///< offset from the flow's first PSN
  std::uint32_t psn_last = 0;
  bool tx = true;
  bool rx = true;
  std::uint64_t nth = 1;    ///< the first matching packet that counts
  std::uint64_t every = 1;  ///< and then each so-many-th
  double rate = 1;          ///< and of these, so many at random
  std::uint64_t times = UINT64_MAX;
};

struct FaultScript {
  std::vector<FaultRow> rows;
  std::uint64_t seed = 1;
};

/// Reads `text`. False: `*error` is one line that names `file_name`, the line and, for a misspelt word, the nearest
/// valid one; `*script` is unchanged.
bool parse_fault_script(std::string_view text, std::string_view file_name, FaultScript* script, std::string* error);
/// Reads the file at `path` in the same way.
bool read_fault_script(const std::string& path, FaultScript* script, std::string* error);

}  // namespace roci
