// Every work request of a run, from its post to its completion: each gives at most one CQE, in order, and none is lost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "stack/queues/work.h"

namespace roci::fuzz {

struct WorkRequest {
  std::uint32_t qp = 0;  ///< number of the QP; of an SRQ's request nothing
  bool is_send = false;
  bool is_shared = false;  ///< posted to the SRQ
  bool is_signaled = true;
  bool may_write = false;  ///< its elements take what the peer sends
  std::vector<Sge> sges;
  bool is_over = false;
};

class Ledger {
 public:
  static constexpr std::size_t kMostQps = 3;

  /// Returns the wr_id under which it is posted; forget_last() if the post fails.
  std::uint64_t add(const WorkRequest& request);
  void forget_last();

  /// A CQE of QP number `qp`.
  void complete(const Cqe& cqe, std::uint32_t qp);
  /// After all CQEs were taken: the send queue of `qp` has this many requests left.
  void retire_sends(std::uint32_t qp, std::size_t left);
  /// QP to RESET: its own requests are gone without a CQE.
  void forget_qp(std::uint32_t qp);
  /// The CQ has lost completions: what is missing can no longer be told from what was lost.
  void note_overrun() { overrun_ = true; }

  std::size_t sends_left(std::uint32_t qp) const { return sends_[qp].size(); }
  std::size_t receives_left(std::uint32_t qp) const { return receives_[qp].size(); }
  std::size_t shared_left() const { return shared_left_; }
  bool overrun() const { return overrun_; }

  /// Calls `visit` with each request that is not over.
  template <class Visit>
  void for_each_open(Visit visit) const {
    for (const WorkRequest& request : requests_)
      if (!request.is_over) visit(request);
  }

 private:
  void complete_in_order(std::deque<std::uint64_t>& queue, const Cqe& cqe);

  std::vector<WorkRequest> requests_;  ///< by wr_id
  std::array<std::deque<std::uint64_t>, kMostQps> sends_;
  std::array<std::deque<std::uint64_t>, kMostQps> receives_;
  std::array<bool, kMostQps> send_failed_{};
  std::size_t shared_left_ = 0;
  bool overrun_ = false;
};

}  // namespace roci::fuzz
