// What one random run does, drawn from its seed before anything happens: hosts, links, faults, QPs, and for each QP the
// operations that it will post and the receives that meet those of its peer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/faults/fault_script.h"
#include "drivers/sim/network.h"
#include "stack/base/types.h"
#include "stack/qp/attributes.h"

namespace roci::simtest {

enum class OpKind : std::uint8_t {
  kSend,
  kSendImm,
  kWrite,
  kWriteImm,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kSendInv,
  kBind,
  kLocalInv,
};
inline constexpr std::size_t kOpKinds = 10;
std::string_view op_name(OpKind kind);

inline constexpr std::uint32_t kWordBytes = 8;
inline constexpr std::uint32_t kPrivateWords = 4;
inline constexpr std::uint32_t kSharedWords = 4;  ///< of each host, for all its peers

/// A run of bytes in a region, from the region's first registered byte.
struct Piece {
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

/// What is wrong with an operation, so that it must fail.
enum class Flaw : std::uint8_t {
  kNone,
  kRemoteRange,  ///< one byte beyond the peer's region
  kRemoteKey,
  kMisaligned,    ///< atomic
  kShortReceive,  ///< the peer's receive is one byte too short
  kLocalKey,
  kStaleWindow,  ///< the key of a window that the QP has invalidated
  kWindowRule,   ///< binds a window that is bound, or invalidates one that is not
};

struct PlannedOp {
  OpKind kind = OpKind::kSend;
  Flaw flaw = Flaw::kNone;
  std::uint8_t flags = 0;    ///< SendFlag bits
  bool shared = false;       ///< the word is one of the peer host's shared words
  bool by_window = false;    ///< the peer's target region is reached by its window's key
  std::vector<Piece> local;  ///< in the local region: source, or destination of a READ or atomic
  std::uint32_t length = 0;  ///< bytes
  std::uint32_t remote = 0;  ///< offset in the peer's target region, or in the shared words
  std::uint32_t imm = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;

  bool takes_receive() const {
    return kind == OpKind::kSend || kind == OpKind::kSendImm || kind == OpKind::kWriteImm || kind == OpKind::kSendInv;
  }
  bool is_atomic() const { return kind == OpKind::kCompareSwap || kind == OpKind::kFetchAdd; }
  bool is_local() const { return kind == OpKind::kBind || kind == OpKind::kLocalInv; }
};

struct PlannedReceive {
  std::vector<Piece> pieces;  ///< in the receive region
};

/// One QP. Its operations touch its own local region, and its peer's target and receive regions; nobody else's do.
struct PlannedEndpoint {
  std::uint32_t host = 0;
  std::uint32_t peer = 0;  ///< index of the endpoint it is connected to
  bool is_v4 = true;
  QpAttr attr;  ///< all but addresses and numbers of the peer
  QpCapacity capacity;
  bool signal_all = false;
  bool uses_srq = false;         ///< the host's; then `receives` is empty
  bool has_window = false;       ///< over its target region, for the peer
  bool zero_based = false;       ///< that window
  Duration post_gap{};           ///< mean time between the application's postings
  std::uint32_t post_burst = 1;  ///< most operations in one posting
  std::vector<PlannedOp> ops;
  std::vector<PlannedReceive> receives;
  std::uint32_t receives_at_start = 0;
  std::uint32_t local_bytes = 0;
  std::uint32_t receive_bytes = 0;
  std::uint32_t target_bytes = 0;
  std::uint32_t words = 0;  ///< offset in the target region of kPrivateWords words, zero at the start

  bool is_signaled(std::size_t op) const;
  /// True if one of the first `count` operations has a flaw that the peer notices.
  bool offends_peer(std::size_t count) const;
  bool has_flaw(std::size_t count) const;
};

/// The SRQ of a host, for all its QPs or none. Any receive must do for any message.
struct PlannedSrq {
  bool used = false;
  std::uint32_t max_wr = 0;
  std::uint32_t at_start = 0;
  std::uint32_t longest = 0;  ///< message, in bytes
  std::uint32_t messages = 0;
  std::vector<PlannedReceive> receives;
  std::uint32_t receive_bytes = 0;
};

/// A host that takes no turns for a while.
struct PlannedStop {
  bool happens = false;
  std::uint32_t host = 0;
  Instant at{};
  Duration length{};
  bool known = false;  ///< to the peers' links
};

struct PlanOptions {
  std::vector<bool> enabled = std::vector<bool>(kOpKinds, true);  ///< by OpKind
  std::uint32_t most_ops = 60;                                    ///< of one endpoint
  double only_loss = 0;  ///< if not 0: packets are lost at this rate, and nothing else goes wrong
};

struct Plan {
  std::uint64_t seed = 0;
  std::uint32_t hosts = 2;
  sim::LinkConfig link;
  FaultScript faults;  ///< rows with a rate, for every link, or for every port
  bool faults_at_ports = false;
  Instant faults_end{};
  Duration turn_jitter{};
  PlannedStop stop;
  std::vector<PlannedSrq> srqs;  ///< by host
  std::vector<PlannedEndpoint> endpoints;

  /// The link may need longer than a timeout for what its queue holds.
  bool is_slow() const { return link.rate_bps == 1'000'000'000; }
};

Plan make_plan(std::uint64_t seed, const PlanOptions& options);
/// A few lines for people.
std::string describe(const Plan& plan);

}  // namespace roci::simtest
