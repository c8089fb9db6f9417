#include "tests/sim/plan.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "stack/base/random.h"
#include "stack/mem/memory.h"
#include "stack/queues/work.h"

namespace roci::simtest {
namespace {

/// Stream of the seed that plans are drawn from.
constexpr std::uint64_t kPlanStream = 1'000'000;
constexpr std::uint32_t kMaxSges = 4;
constexpr std::uint32_t kMaxInlineBytes = 128;
constexpr std::uint32_t kLongestGap = 40;
constexpr std::uint32_t kLongestToSrq = 8;  ///< packets of a message

template <class T, std::size_t N>
T pick(Random& random, const std::array<T, N>& choices) {
  return choices[random.below(N)];
}

/// Hands out runs of a region, with gaps that nothing may touch.
class Allocator {
 public:
  explicit Allocator(Random& random) : random_(random) {}

  std::uint32_t take(std::uint32_t bytes, std::uint32_t alignment = 1) {
    size_ += static_cast<std::uint32_t>(random_.below(kLongestGap));
    size_ = (size_ + alignment - 1) / alignment * alignment;
    const std::uint32_t offset = size_;
    size_ += bytes;
    return offset;
  }
  /// `bytes` in up to `most` pieces, some perhaps empty.
  std::vector<Piece> take_pieces(std::uint32_t bytes, std::uint32_t most) {
    const auto count = static_cast<std::uint32_t>(random_.between(bytes == 0 ? 0 : 1, most));
    std::vector<Piece> pieces;
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool is_last = i + 1 == count;
      const std::uint32_t n = is_last ? bytes : static_cast<std::uint32_t>(random_.below(bytes + 1));
      pieces.push_back({take(n), n});
      bytes -= n;
    }
    return pieces;
  }
  std::uint32_t size() const { return size_; }

 private:
  Random& random_;
  std::uint32_t size_ = 0;
};

std::uint32_t draw_length(Random& random, std::uint32_t mtu) {
  const std::array<std::uint32_t, 10> edges{0, 1, 3, 4, mtu - 1, mtu, mtu + 1, 2 * mtu - 1, 2 * mtu, 2 * mtu + 1};
  switch (random.below(8)) {
    case 0:
    case 1:
    case 2:
      return pick(random, edges);
    case 3:
    case 4:
      return static_cast<std::uint32_t>(random.below(64));
    case 5:
    case 6:
      return static_cast<std::uint32_t>(random.below(8 * mtu));
    default:
      // More packets than a window holds, now and then.
      return static_cast<std::uint32_t>(random.below(random.below(10) == 0 ? 200 * mtu : 16 * mtu));
  }
}

/// Draws the operations of one endpoint and lays out what they touch.
class OpPlanner {
 public:
  OpPlanner(Random& random, const PlanOptions& options, Plan& plan, PlannedEndpoint& from, PlannedEndpoint& to)
      : random_(random),
        may_have_flaws_(options.only_loss == 0),
        srq_(plan.srqs[to.host]),
        from_(from),
        to_(to),
        local_(random),
        receive_(random),
        target_(random) {
    for (std::size_t i = 0; i < kOpKinds; ++i)
      if (options.enabled[i]) kinds_.push_back(static_cast<OpKind>(i));
    mtu_ = mtu_bytes(from.attr.path_mtu);
    hot_bytes_ = 3 * mtu_;
    hot_ = target_.take(hot_bytes_);
    words_ = target_.take(kPrivateWords * kWordBytes, kWordBytes);
  }

  void plan_ops(std::uint32_t count) {
    const bool has_flaw = random_.chance(0.08) && may_have_flaws_;
    const std::uint64_t flawed = has_flaw ? random_.below(count) : UINT64_MAX;
    for (std::uint32_t i = 0; i < count; ++i) {
      wants_flaw_ = i == flawed;
      from_.ops.push_back(draw_op());
      keep_room(i);
    }
    from_.local_bytes = local_.size();
    to_.receive_bytes = receive_.size();
    to_.target_bytes = target_.size();
    to_.words = words_;
  }

 private:
  /// Only a completion that is polled frees slots: among as many operations as the queue holds, one is signalled.
  void keep_room(std::uint32_t last) {
    const std::uint32_t slots = from_.capacity.max_send_wr;
    if (last + 1 < slots) return;
    for (std::uint32_t i = last + 1 - slots; i <= last; ++i)
      if (from_.is_signaled(i)) return;
    from_.ops[last].flags |= kSendSignaled;
  }

  PlannedOp draw_op() {
    PlannedOp op;
    op.kind = draw_kind();
    if (random_.chance(0.6)) op.flags |= kSendSignaled;
    if (random_.chance(0.1)) op.flags |= kSendFence;
    if (random_.chance(0.1)) op.flags |= kSendSolicited;
    op.imm = static_cast<std::uint32_t>(random_.next());
    if (op.is_local())
      draw_local(op);
    else if (op.is_atomic())
      draw_atomic(op);
    else if (op.kind == OpKind::kRead)
      draw_read(op);
    else
      draw_send_or_write(op);
    if (wants_flaw_ && op.flaw == Flaw::kNone) op.flaw = draw_flaw(op);
    return op;
  }

  /// A window can be invalidated once, and what it opened is reached by the region's own key from then on.
  OpKind draw_kind() {
    const OpKind kind = kinds_[random_.below(kinds_.size())];
    if (kind != OpKind::kSendInv) return kind;
    if (!to_.has_window || window_is_gone_) return OpKind::kSend;
    window_is_gone_ = true;
    return kind;
  }

  void draw_local(PlannedOp& op) {
    op.flags &= static_cast<std::uint8_t>(~kSendSolicited);
    op.kind = spare_is_bound_ ? OpKind::kLocalInv : OpKind::kBind;
    if (wants_flaw_) {
      op.flaw = Flaw::kWindowRule;
      op.kind = spare_is_bound_ ? OpKind::kBind : OpKind::kLocalInv;
      return;
    }
    spare_is_bound_ = !spare_is_bound_;
  }

  Flaw draw_flaw(PlannedOp& op) {
    // An empty message touches no memory, and inline data has no key.
    if (op.length == 0 || op.shared) return Flaw::kNone;
    const bool is_send = op.takes_receive() && op.kind != OpKind::kWriteImm;
    if (!is_send && to_.has_window && window_is_gone_ && random_.chance(0.5)) {
      op.by_window = true;
      return Flaw::kStaleWindow;
    }
    if (is_send || random_.chance(0.3)) return (op.flags & kSendInline) != 0 ? Flaw::kNone : Flaw::kLocalKey;
    if (op.is_atomic() && random_.chance(0.5)) return Flaw::kMisaligned;
    return op.is_atomic() || random_.chance(0.5) ? Flaw::kRemoteKey : Flaw::kRemoteRange;
  }

  void draw_send_or_write(PlannedOp& op) {
    op.length = draw_length(random_, mtu_);
    if (srq_.used) op.length %= kLongestToSrq * mtu_ + 1;
    if (op.length <= kMaxInlineBytes && random_.chance(0.3)) op.flags |= kSendInline;
    if (!forward_read_result(op)) op.local = local_.take_pieces(op.length, kMaxSges);
    const bool is_write = op.kind == OpKind::kWrite || op.kind == OpKind::kWriteImm;
    if (is_write) place_write(op);
    // The invalidation must not overtake the answers to READs.
    if (op.kind == OpKind::kSendInv) op.flags |= kSendFence;
    if (!op.takes_receive()) return;
    if (srq_.used) {
      ++srq_.messages;
      srq_.longest = std::max(srq_.longest, op.length);
      return;
    }
    std::uint32_t room = is_write ? 0 : op.length + static_cast<std::uint32_t>(random_.below(3) * 50);
    if (wants_flaw_ && !is_write && op.length > 0 && random_.chance(0.5)) {
      op.flaw = Flaw::kShortReceive;
      room = op.length - 1;
    }
    to_.receives.push_back({receive_.take_pieces(room, kMaxSges)});
  }

  /// Sometimes sends on what an earlier READ brings: only a fence makes that right.
  bool forward_read_result(PlannedOp& op) {
    if (last_read_.empty() || !random_.chance(0.2)) return false;
    std::uint32_t length = 0;
    for (const Piece& piece : last_read_) length += piece.length;
    if (srq_.used && length > kLongestToSrq * mtu_) return false;
    op.local = last_read_;
    op.length = length;
    op.flags = static_cast<std::uint8_t>((op.flags | kSendFence) & ~kSendInline);
    return true;
  }

  void choose_key(PlannedOp& op) { op.by_window = to_.has_window && !window_is_gone_ && random_.chance(0.5); }

  void place_write(PlannedOp& op) {
    choose_key(op);
    if (op.length > hot_bytes_ || !random_.chance(0.4)) {
      op.remote = target_.take(op.length);
      return;
    }
    op.remote = hot_ + static_cast<std::uint32_t>(random_.below(hot_bytes_ - op.length + 1));
    // Without a fence a WRITE may overtake an earlier READ of the same bytes (IBTA table 79).
    if (hot_is_read_) op.flags |= kSendFence;
    hot_is_read_ = false;
  }

  void draw_read(PlannedOp& op) {
    choose_key(op);
    op.length = draw_length(random_, mtu_);
    op.local = local_.take_pieces(op.length, kMaxSges);
    if (op.length <= hot_bytes_ && random_.chance(0.5)) {
      op.remote = hot_ + static_cast<std::uint32_t>(random_.below(hot_bytes_ - op.length + 1));
      hot_is_read_ = true;
    } else {
      op.remote = target_.take(op.length);
    }
    last_read_ = op.local;
  }

  void draw_atomic(PlannedOp& op) {
    op.length = kWordBytes;
    op.local = {{local_.take(kWordBytes, kWordBytes), kWordBytes}};
    op.compare_add = random_.next();
    op.swap = random_.next();
    if (op.kind == OpKind::kFetchAdd && random_.chance(0.4)) {
      op.shared = true;
      op.remote = static_cast<std::uint32_t>(random_.below(kSharedWords)) * kWordBytes;
      op.compare_add = random_.between(1, 1000);
      return;
    }
    choose_key(op);
    const auto word = static_cast<std::uint32_t>(random_.below(kPrivateWords));
    op.remote = words_ + word * kWordBytes;
    // Words start at zero. A compare that hits needs to know what the word holds by now.
    std::uint64_t& value = word_values_[word];
    if (op.kind == OpKind::kFetchAdd) {
      value += op.compare_add;
    } else if (random_.chance(0.6)) {
      op.compare_add = value;
      value = op.swap;
    }
  }

  Random& random_;
  const bool may_have_flaws_;
  PlannedSrq& srq_;
  PlannedEndpoint& from_;
  PlannedEndpoint& to_;
  Allocator local_;
  Allocator receive_;
  Allocator target_;
  std::vector<OpKind> kinds_;
  std::uint32_t mtu_ = 0;
  std::uint32_t hot_ = 0;
  std::uint32_t hot_bytes_ = 0;
  std::uint32_t words_ = 0;
  bool hot_is_read_ = false;
  bool wants_flaw_ = false;
  bool window_is_gone_ = false;
  bool spare_is_bound_ = false;
  std::vector<Piece> last_read_;
  std::array<std::uint64_t, kPrivateWords> word_values_{};
};

Psn draw_psn(Random& random) {
  const auto any = static_cast<std::uint32_t>(random.next());
  return random.chance(0.6) ? Psn(0u - static_cast<std::uint32_t>(random.below(100))) : Psn(any);
}

void draw_pair(Random& random, Plan& plan) {
  const auto first = static_cast<std::uint32_t>(plan.endpoints.size());
  const auto host_a = static_cast<std::uint32_t>(random.below(plan.hosts));
  const bool loops_back = random.chance(0.05);
  const auto host_b =
      loops_back ? host_a : static_cast<std::uint32_t>((host_a + random.between(1, plan.hosts - 1)) % plan.hosts);
  const bool is_v4 = random.chance(0.5);
  const auto mtu = static_cast<std::uint8_t>(random.between(1, 5));
  const Psn psn_ab = draw_psn(random);
  const Psn psn_ba = draw_psn(random);
  const std::uint8_t few_retries = random.chance(0.1) ? 1 : 7;
  for (std::uint32_t side = 0; side < 2; ++side) {
    PlannedEndpoint end{.host = side == 0 ? host_a : host_b, .peer = first + 1 - side, .is_v4 = is_v4};
    end.attr = {.path_mtu = mtu,
                .rq_psn = side == 0 ? psn_ba : psn_ab,
                .sq_psn = side == 0 ? psn_ab : psn_ba,
                .access_flags = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic,
                .max_rd_atomic = static_cast<std::uint8_t>(random.between(1, 8)),
                .max_dest_rd_atomic = 8,
                .min_rnr_timer = static_cast<std::uint8_t>(random.between(1, 8)),
                .timeout = static_cast<std::uint8_t>(random.between(8, 11)),
                .retry_cnt = few_retries,
                .rnr_retry = 7};
    end.capacity = {.max_send_wr = static_cast<std::uint32_t>(random.between(1, 32)),
                    .max_recv_wr = static_cast<std::uint32_t>(random.between(1, 32)),
                    .max_send_sge = kMaxSges,
                    .max_recv_sge = kMaxSges,
                    .max_inline_data = kMaxInlineBytes};
    end.signal_all = random.chance(0.1);
    end.uses_srq = plan.srqs[end.host].used;
    end.has_window = random.chance(0.5);
    end.zero_based = random.chance(0.3);
    end.post_gap = microseconds(static_cast<std::int64_t>(pick(random, std::array{1, 20, 200})));
    end.post_burst = static_cast<std::uint32_t>(random.between(1, 16));
    end.receives_at_start = static_cast<std::uint32_t>(random.below(64));
    plan.endpoints.push_back(end);
  }
}

/// A third of the runs have no faults, or only one kind; the others have several, each up to its limit.
void draw_faults(Random& random, Plan& plan) {
  struct Limit {
    FaultAction action;
    double most;
  };
  constexpr auto kLimits = std::to_array<Limit>({{FaultAction::kDrop, 0.2},
                                                 {FaultAction::kDuplicate, 0.2},
                                                 {FaultAction::kReorder, 0.1},
                                                 {FaultAction::kDelay, 0.1},
                                                 {FaultAction::kCorrupt, 0.05},
                                                 {FaultAction::kMarkCe, 0.5}});
  plan.faults.seed = random.next();
  const std::uint64_t mix = random.below(6);
  if (mix == 0) return;
  const std::uint64_t only = random.below(kLimits.size());
  for (std::size_t i = 0; i < kLimits.size(); ++i) {
    const double rate = kLimits[i].most * static_cast<double>(random.below(1001)) / 1000;
    const bool wanted = mix == 1 ? i == only : random.chance(0.6);
    FaultRow row{.action = kLimits[i].action, .rate = rate};
    row.copies = static_cast<std::uint32_t>(random.between(1, 3));
    row.reorder_by = static_cast<std::uint32_t>(random.between(1, 10));
    row.delay_most = microseconds(static_cast<std::int64_t>(pick(random, std::array{5, 100, 5000, 30000})));
    if (wanted) plan.faults.rows.push_back(row);
  }
}

void draw_stop(Random& random, Plan& plan) {
  plan.stop = {.happens = random.chance(0.1),
               .host = static_cast<std::uint32_t>(random.below(plan.hosts)),
               .at = Instant{} + microseconds(static_cast<std::int64_t>(random.below(20'000))),
               .length = microseconds(static_cast<std::int64_t>(random.below(50'000))),
               .known = random.chance(0.5)};
}

}  // namespace

bool PlannedEndpoint::is_signaled(std::size_t op) const { return signal_all || (ops[op].flags & kSendSignaled) != 0; }

bool PlannedEndpoint::has_flaw(std::size_t count) const {
  return std::any_of(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(count),
                     [](const PlannedOp& op) { return op.flaw != Flaw::kNone; });
}

bool PlannedEndpoint::offends_peer(std::size_t count) const {
  return std::any_of(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(count), [](const PlannedOp& op) {
    return op.flaw != Flaw::kNone && op.flaw != Flaw::kLocalKey && op.flaw != Flaw::kWindowRule;
  });
}

std::string_view op_name(OpKind kind) {
  constexpr std::array<std::string_view, kOpKinds> kNames{
      "send", "send-imm", "write", "write-imm", "read", "compare-swap", "fetch-add", "send-inv", "bind", "local-inv"};
  return kNames[static_cast<std::size_t>(kind)];
}

Plan make_plan(std::uint64_t seed, const PlanOptions& options) {
  Random random(seed, kPlanStream);
  Plan plan{.seed = seed};
  plan.hosts = random.chance(0.3) ? 3 : 2;
  plan.link = {
      .rate_bps = pick(random, std::array<std::uint64_t, 4>{1'000'000'000, 25'000'000'000, 100'000'000'000, 0}),
      .delay = nanoseconds(pick(random, std::array<std::int64_t, 4>{0, 500, 2'000, 50'000})),
      .queue_frames = pick(random, std::array<std::uint32_t, 4>{1, 4, 64, 1000})};
  draw_faults(random, plan);
  plan.faults_at_ports = random.chance(0.3);
  plan.faults_end = Instant{} + milliseconds(static_cast<std::int64_t>(random.between(5, 200)));
  plan.turn_jitter = nanoseconds(pick(random, std::array<std::int64_t, 3>{0, 1'000, 20'000}));
  draw_stop(random, plan);
  if (options.only_loss > 0) {
    plan.faults.rows = {{.action = FaultAction::kDrop, .rate = options.only_loss}};
    plan.stop.happens = false;
  }
  for (std::uint32_t i = 0; i < plan.hosts; ++i)
    plan.srqs.push_back({.used = random.chance(0.2),
                         .max_wr = static_cast<std::uint32_t>(random.between(1, 64)),
                         .at_start = static_cast<std::uint32_t>(random.below(64))});
  const std::uint64_t pairs = random.between(1, 3);
  for (std::uint64_t i = 0; i < pairs; ++i) draw_pair(random, plan);
  if (options.only_loss > 0)
    for (PlannedEndpoint& end : plan.endpoints) end.attr.retry_cnt = 7;
  for (PlannedEndpoint& from : plan.endpoints) {
    const auto count = static_cast<std::uint32_t>(random.below(options.most_ops + 1));
    OpPlanner(random, options, plan, from, plan.endpoints[from.peer]).plan_ops(count);
  }
  for (PlannedSrq& srq : plan.srqs) {
    if (!srq.used) continue;
    Allocator allocator(random);
    // A QP that fails in the middle of a message takes one more with it.
    for (std::size_t i = 0; i < srq.messages + plan.endpoints.size(); ++i)
      srq.receives.push_back({allocator.take_pieces(srq.longest, kMaxSges)});
    srq.receive_bytes = allocator.size();
  }
  return plan;
}

std::string describe(const Plan& plan) {
  std::string out = std::to_string(plan.hosts) + " hosts, " + std::to_string(plan.link.rate_bps / 1'000'000'000) +
                    " Gb/s, delay " + std::to_string(plan.link.delay.ns()) + " ns, queue of " +
                    std::to_string(plan.link.queue_frames) + " frames, jitter " +
                    std::to_string(plan.turn_jitter.ns()) + " ns\nfaults of each " +
                    (plan.faults_at_ports ? "port" : "link") + " up to " +
                    std::to_string((plan.faults_end - Instant{}).ns() / 1'000'000) + " ms:";
  for (const FaultRow& row : plan.faults.rows)
    out += " " + std::string(fault_action_name(row.action)) + " " + std::to_string(row.rate * 100) + "%";
  if (plan.stop.happens)
    out += "\nhost " + std::to_string(plan.stop.host) + (plan.stop.known ? " (known)" : "") + " stops at " +
           std::to_string((plan.stop.at - Instant{}).ns() / 1000) + " us for " +
           std::to_string(plan.stop.length.ns() / 1000) + " us";
  for (std::size_t i = 0; i < plan.endpoints.size(); ++i) {
    const PlannedEndpoint& end = plan.endpoints[i];
    out += "\nQP " + std::to_string(i) + " on host " + std::to_string(end.host) + " to QP " + std::to_string(end.peer) +
           (end.is_v4 ? " (IPv4)" : " (IPv6)") + ": MTU " + std::to_string(mtu_bytes(end.attr.path_mtu)) + ", PSN " +
           std::to_string(end.attr.sq_psn.value()) + ", timeout " + std::to_string(end.attr.timeout) + ", retries " +
           std::to_string(end.attr.retry_cnt) + ", reads " + std::to_string(end.attr.max_rd_atomic) + ", SQ " +
           std::to_string(end.capacity.max_send_wr) + ", RQ " + std::to_string(end.capacity.max_recv_wr) + ", " +
           std::to_string(end.ops.size()) + " operations" + (end.uses_srq ? ", SRQ" : "") +
           (end.has_window ? ", window" : "");
  }
  return out;
}

}  // namespace roci::simtest
