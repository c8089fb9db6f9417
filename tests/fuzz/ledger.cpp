#include "tests/fuzz/ledger.h"

#include "tests/fuzz/require.h"

namespace roci::fuzz {
namespace {

bool is_receive(const Cqe& cqe) { return cqe.opcode >= WcOpcode::kRecv; }

}  // namespace

std::uint64_t Ledger::add(const WorkRequest& request) {
  const std::uint64_t id = requests_.size();
  requests_.push_back(request);
  if (request.is_shared)
    ++shared_left_;
  else
    (request.is_send ? sends_ : receives_)[request.qp].push_back(id);
  return id;
}

void Ledger::forget_last() {
  const WorkRequest& request = requests_.back();
  if (request.is_shared)
    --shared_left_;
  else
    (request.is_send ? sends_ : receives_)[request.qp].pop_back();
  requests_.pop_back();
}

void Ledger::complete(const Cqe& cqe, std::uint32_t qp) {
  require(cqe.wr_id < requests_.size(), "a CQE names a work request");
  WorkRequest& request = requests_[cqe.wr_id];
  require(!request.is_over, "a work request gives one CQE");
  require(request.is_send != is_receive(cqe), "a CQE tells of the side that its request was posted to");
  const bool failed = cqe.status != WcStatus::kSuccess;
  std::uint64_t room = 0;
  for (const Sge& sge : request.sges) room += sge.length;
  require(failed || cqe.opcode != WcOpcode::kRecv || cqe.byte_len <= room, "a message fits its receive request");
  if (request.is_shared) {
    request.is_over = true;
    --shared_left_;
    return;
  }
  require(request.qp == qp, "a CQE names its request's QP");
  if (request.is_send) {
    require(failed || request.is_signaled, "an unsignalled request that succeeds gives no CQE");
    require(failed || !send_failed_[qp], "nothing succeeds after a request that failed");
    send_failed_[qp] |= failed;
  }
  complete_in_order((request.is_send ? sends_ : receives_)[qp], cqe);
}

void Ledger::complete_in_order(std::deque<std::uint64_t>& queue, const Cqe& cqe) {
  for (;;) {
    require(!queue.empty(), "requests complete in the order of their posts");
    const std::uint64_t id = queue.front();
    queue.pop_front();
    requests_[id].is_over = true;
    if (id == cqe.wr_id) return;
    require(!requests_[id].is_signaled || overrun_, "a signalled request completes before the ones after it");
  }
}

void Ledger::retire_sends(std::uint32_t qp, std::size_t left) {
  while (sends_[qp].size() > left) {
    WorkRequest& request = requests_[sends_[qp].front()];
    require(!request.is_signaled || overrun_, "a signalled request does not leave its queue without a CQE");
    require(!send_failed_[qp] || overrun_, "what is flushed gives a CQE");
    request.is_over = true;
    sends_[qp].pop_front();
  }
}

void Ledger::forget_qp(std::uint32_t qp) {
  for (auto* queue : {&sends_[qp], &receives_[qp]}) {
    for (const std::uint64_t id : *queue) requests_[id].is_over = true;
    queue->clear();
  }
  send_failed_[qp] = false;
}

}  // namespace roci::fuzz
