// The end of a run: when it is over, and what must then be true.
#include <algorithm>
#include <cstring>
#include <map>

#include "stack/base/assert.h"
#include "tests/sim/world.h"

namespace roci::simtest {
namespace {

/// Once faults have stopped and every host runs, all must be done within this time.
constexpr Duration kBound = seconds(1);
/// Frames still held back by faults, and ACKs under way, have come to rest after this.
constexpr Duration kRest = seconds(1);

std::vector<std::byte> gather(Region& region, const std::vector<Piece>& pieces) {
  std::vector<std::byte> bytes;
  for (const Piece& piece : pieces)
    bytes.insert(bytes.end(), region.expected_at(piece.offset), region.expected_at(piece.offset) + piece.length);
  return bytes;
}

void scatter(Region& region, const std::vector<Piece>& pieces, std::span<const std::byte> bytes) {
  for (const Piece& piece : pieces) {
    const std::size_t n = std::min<std::size_t>(piece.length, bytes.size());
    std::copy_n(bytes.begin(), n, region.expected_at(piece.offset));
    bytes = bytes.subspan(n);
  }
}

void forget(Region& region, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) region.forget(piece.offset, piece.length);
}

std::uint64_t load(const std::byte* p) {
  std::uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

}  // namespace

std::string World::run() {
  Instant end = plan_.faults_end;
  if (plan_.stop.happens) end = std::max(end, plan_.stop.at + plan_.stop.length);
  const bool finished = simulation_.run(end + kBound, [this] { return !wrong_.empty() || is_finished(); });
  finished_at_ = simulation_.now();
  if (!wrong_.empty()) return wrong_;
  if (!finished) {
    for (const auto& endpoint : endpoints_)
      if (!is_finished(*endpoint))
        wrong("QP " + std::to_string(endpoint->index) + ": not finished, operations " +
              std::to_string(endpoint->ops_completed) + " completed, " + std::to_string(endpoint->ops_posted) +
              " posted; messages " + std::to_string(endpoint->received_by.size()) + " received of " +
              std::to_string(messages_to(*endpoint)));
    return wrong_;
  }
  check_windows();
  close();
  expect_memory();
  for (auto& endpoint : endpoints_) {
    const std::string name = "QP " + std::to_string(endpoint->index);
    check_region(endpoint->local, name + " local memory");
    check_region(endpoint->receive, name + " receive memory");
    check_region(endpoint->target, name + " target memory");
  }
  for (HostState& state : hosts_) {
    check_region(state.shared, "memory around shared words");
    check_region(state.srq_region, "SRQ memory");
  }
  check_shared_words();
  check_counters();
  check_async_events();
  return wrong_;
}

bool World::is_finished(const Endpoint& endpoint) const {
  if (endpoint.failed) return endpoint.ops_completed == endpoint.ops_posted;
  if (endpoint.ops_posted < endpoint.plan->ops.size() || endpoint.qp->sq().outstanding() != 0) return false;
  for (std::size_t i = endpoint.ops_completed; i < endpoint.ops_posted; ++i)
    if (endpoint.plan->is_signaled(i)) return false;
  return peer_of(endpoint).failed || endpoint.received_by.size() == messages_to(endpoint);
}

std::size_t World::messages_to(const Endpoint& endpoint) const {
  const std::vector<PlannedOp>& ops = peer_of(endpoint).plan->ops;
  return static_cast<std::size_t>(
      std::count_if(ops.begin(), ops.end(), [](const PlannedOp& op) { return op.takes_receive(); }));
}

bool World::is_finished() const {
  return std::all_of(endpoints_.begin(), endpoints_.end(), [this](const auto& end) { return is_finished(*end); });
}

void World::close() {
  for (auto& endpoint : endpoints_) {
    endpoint->closing = true;
    ROCI_ASSERT(endpoint->host->device().modify_qp(endpoint->qp, {.state = QpState::kErr}, kQpStateAttr) == 0);
  }
  simulation_.events().run_until(simulation_.now() + kRest);
  for (std::uint32_t i = 0; i < hosts_.size(); ++i) poll(i);
  for (auto& endpoint : endpoints_) {
    const std::string name = "QP " + std::to_string(endpoint->index);
    if (endpoint->receives_completed != endpoint->receives_posted) wrong(name + ": receives were not all flushed");
    if (endpoint->failed && endpoint->ops_completed != endpoint->ops_posted)
      wrong(name + ": operations were not all flushed");
  }
  if (simulation_.network().frames_in_use() != 0)
    wrong(std::to_string(simulation_.network().frames_in_use()) + " frames were not given back");
}

void World::check_counters() {
  if (counter(&Counters::cq_overflow) != 0) wrong("a CQ overflowed");
  const bool corrupts = std::any_of(plan_.faults.rows.begin(), plan_.faults.rows.end(),
                                    [](const FaultRow& row) { return row.action == FaultAction::kCorrupt; });
  if (!corrupts && counter(&Counters::rx_unknown_opcode) + counter(&Counters::rx_malformed) +
                           counter(&Counters::rx_icrc_encapsulated) !=
                       0)
    wrong("packets that nobody should have sent");
  if (counter(&Counters::rx_unknown_qp) + counter(&Counters::rx_bad_pkey) + counter(&Counters::rx_wrong_source) +
          counter(&Counters::rx_wrong_destination) !=
      0)
    wrong("packets that nobody should have sent");
  const bool has_flaws = std::any_of(endpoints_.begin(), endpoints_.end(), [](const auto& endpoint) {
    return endpoint->plan->has_flaw(endpoint->ops_posted);
  });
  if (has_flaws) return;
  if (counter(&Counters::resp_remote_access_errors) + counter(&Counters::resp_remote_invalid_request) +
          counter(&Counters::resp_remote_operational_errors) + counter(&Counters::resp_local_length_error) +
          counter(&Counters::resp_remote_invalidate_errors) !=
      0)
    wrong("a responder refused a good request");
  // With no faults and a link fast enough for its timeouts nothing is ever sent twice, but for want of receives.
  if (!plan_.faults.rows.empty() || plan_.stop.happens || plan_.is_slow()) return;
  if (counter(&Counters::local_ack_timeout_err) != 0) wrong("timeouts without faults");
  if (counter(&Counters::implied_nak_seq_err) != 0) wrong("implied NAKs without faults");
  if (counter(&Counters::rnr_nak_retry_err) == 0 &&
      counter(&Counters::packet_seq_err) + counter(&Counters::retransmitted_packets) != 0)
    wrong("retransmissions without faults");
}

void World::expect_memory() {
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    for (std::size_t index : hosts_[i].srq_flushed) forget(hosts_[i].srq_region, plan_.srqs[i].receives[index].pieces);
  for (auto& endpoint : endpoints_) {
    const std::size_t done = endpoint->failed ? endpoint->failed_op : endpoint->ops_posted;
    std::size_t next_message = 0;
    for (std::size_t i = 0; i < endpoint->ops_posted; ++i) {
      if (i < done)
        apply(*endpoint, i, &next_message);
      else
        blur(*endpoint, i, &next_message);
      const PlannedOp& op = endpoint->plan->ops[i];
      if ((op.flags & kSendInline) == 0) continue;
      for (const Piece& piece : op.local)
        for (std::uint32_t j = 0; j < piece.length; ++j)
          endpoint->local.expected_at(piece.offset)[j] ^= std::byte{0xff};
    }
  }
}

const PlannedReceive* World::receive_of(Endpoint& endpoint, std::size_t index) const {
  if (!endpoint.plan->uses_srq) return &endpoint.plan->receives[index];
  if (index >= endpoint.received_by.size()) return nullptr;
  return &plan_.srqs[endpoint.plan->host].receives[endpoint.received_by[index]];
}

void World::apply(Endpoint& from, std::size_t op_index, std::size_t* next_message) {
  const PlannedOp& op = from.plan->ops[op_index];
  Endpoint& to = peer_of(from);
  const PlannedReceive* receive = op.takes_receive() ? receive_of(to, (*next_message)++) : nullptr;
  std::byte* remote = op.shared ? nullptr : to.target.expected_at(op.remote);
  switch (op.kind) {
    case OpKind::kSend:
    case OpKind::kSendImm:
    case OpKind::kSendInv:
      if (receive == nullptr) return wrong("a message was sent with success, but never received");
      return scatter(receive_region(to), receive->pieces, gather(from.local, op.local));
    case OpKind::kWrite:
    case OpKind::kWriteImm: {
      const std::vector<std::byte> bytes = gather(from.local, op.local);
      std::copy(bytes.begin(), bytes.end(), remote);
      return;
    }
    case OpKind::kRead:
      return scatter(from.local, op.local, {remote, op.length});
    case OpKind::kBind:
    case OpKind::kLocalInv:
      return;
    case OpKind::kCompareSwap:
    case OpKind::kFetchAdd:
      break;
  }
  if (op.shared) return forget(from.local, op.local);  // see check_shared_words()
  const std::uint64_t original = load(remote);
  scatter(from.local, op.local, {remote, kWordBytes});
  std::uint64_t value = original;
  if (op.kind == OpKind::kFetchAdd)
    value += op.compare_add;
  else if (original == op.compare_add)
    value = op.swap;
  std::memcpy(remote, &value, sizeof value);
}

void World::blur(Endpoint& from, std::size_t op_index, std::size_t* next_message) {
  const PlannedOp& op = from.plan->ops[op_index];
  Endpoint& to = peer_of(from);
  if (op.takes_receive())
    if (const PlannedReceive* receive = receive_of(to, (*next_message)++); receive != nullptr)
      forget(receive_region(to), receive->pieces);
  if (op.kind == OpKind::kRead || op.is_atomic()) forget(from.local, op.local);
  if (op.shared || op.kind == OpKind::kRead) return;
  if (op.kind == OpKind::kWrite || op.kind == OpKind::kWriteImm || op.is_atomic())
    to.target.forget(op.remote, op.length);
}

/// A window is open until its peer's invalidation has arrived; a spare one is as the last operation left it.
void World::check_windows() {
  for (auto& endpoint : endpoints_) {
    const std::string name = "QP " + std::to_string(endpoint->index);
    if (endpoint->window != nullptr && (endpoint->window->mr == nullptr) != endpoint->window_is_gone)
      wrong(name + ": its window is " + (endpoint->window_is_gone ? "still open" : "closed"));
    bool bound = false;
    for (std::size_t i = 0; i < endpoint->ops_posted; ++i)
      if (endpoint->plan->ops[i].is_local()) bound = endpoint->plan->ops[i].kind == OpKind::kBind;
    if (!endpoint->failed && (endpoint->spare->mr != nullptr) != bound)
      wrong(name + ": wrong state of its spare window");
  }
}

void World::check_region(Region& region, const std::string& name) {
  for (std::size_t i = 0; i < region.memory.size(); ++i) {
    if (region.unknown[i] || region.memory[i] == region.expected[i]) continue;
    const bool in_guard = i < Region::kGuardBytes || i >= region.memory.size() - Region::kGuardBytes;
    return wrong(name + " differs from the model at byte " + std::to_string(i) + " - " +
                 std::to_string(Region::kGuardBytes) + (in_guard ? ", outside the registered bytes" : ""));
  }
}

void World::check_shared_words() {
  struct Add {
    std::uint64_t original;
    std::uint64_t added;
  };
  for (std::uint32_t host = 0; host < hosts_.size(); ++host) {
    for (std::uint32_t word = 0; word < kSharedWords; ++word) {
      std::vector<Add> adds;
      bool all_known = true;
      for (auto& endpoint : endpoints_) {
        if (peer_of(*endpoint).plan->host != host) continue;
        for (std::size_t i = 0; i < endpoint->ops_posted; ++i) {
          const PlannedOp& op = endpoint->plan->ops[i];
          if (!op.shared || op.remote != word * kWordBytes) continue;
          if (endpoint->failed && i >= endpoint->failed_op)
            all_known = false;
          else
            adds.push_back({load(endpoint->local.at(op.local[0].offset)), op.compare_add});
        }
      }
      // Each addition saw the sum of those before it. Where some may or may not have happened, sums may be larger.
      std::sort(adds.begin(), adds.end(), [](const Add& a, const Add& b) { return a.original < b.original; });
      adds.push_back({load(hosts_[host].shared.at(word * kWordBytes)), 0});
      std::uint64_t sum = 0;
      for (const Add& add : adds) {
        if (all_known ? add.original != sum : add.original < sum)
          wrong("shared word " + std::to_string(word) + " of host " + std::to_string(host) + ": " +
                std::to_string(add.original) + " where " + std::to_string(sum) + " was added so far");
        sum = add.original + add.added;
      }
    }
  }
}

void World::check_async_events() {
  for (HostState& state : hosts_) {
    std::map<Qp*, int> last_wqes;
    std::map<Qp*, int> refusals;
    for (const AsyncEvent& event : state.host->async_events()) {
      if (event.type == AsyncEventType::kQpLastWqeReached)
        ++last_wqes[event.qp];
      else if (event.type == AsyncEventType::kQpAccessErr || event.type == AsyncEventType::kQpReqErr)
        ++refusals[event.qp];
      else if (event.type != AsyncEventType::kCommEst)
        wrong("asynchronous event " + std::to_string(static_cast<int>(event.type)));
    }
    for (auto& endpoint : endpoints_) {
      if (&state_of(*endpoint) != &state) continue;
      const std::string name = "QP " + std::to_string(endpoint->index);
      // Every QP has been in error by now, and tells so once if it has an SRQ (IBTA 11.6.3.2).
      if (last_wqes[endpoint->qp] != (endpoint->plan->uses_srq ? 1 : 0))
        wrong(name + ": wrong number of events for the last WQE of an SRQ");
      const Endpoint& peer = peer_of(*endpoint);
      if (refusals[endpoint->qp] > (peer.plan->offends_peer(peer.ops_posted) ? 1 : 0))
        wrong(name + ": an event for a request refused that was good");
    }
  }
}

std::uint64_t World::faults_applied() const {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < kFaultActions; ++i)
    for (const FaultInjector* injector : injectors_) total += injector->applied(static_cast<FaultAction>(i));
  return total;
}

std::uint64_t World::failed_endpoints() const {
  return static_cast<std::uint64_t>(
      std::count_if(endpoints_.begin(), endpoints_.end(), [](const auto& endpoint) { return endpoint->failed; }));
}

std::uint64_t World::operations() const {
  std::uint64_t total = 0;
  for (const auto& endpoint : endpoints_) total += endpoint->ops_posted;
  return total;
}

std::uint64_t World::counter(std::uint64_t Counters::*field) const {
  std::uint64_t total = 0;
  for (const HostState& state : hosts_)
    for (std::uint32_t worker = 0; worker < workers_; ++worker) total += state.host->counters(worker).*field;
  return total;
}

}  // namespace roci::simtest
