// A host of an experiment: a simulated host, its memory, and a QP for each end of a flow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "drivers/sim/fabric_port.h"
#include "drivers/sim/sim_host.h"
#include "tools/lab/scenario.h"

namespace roci::lab {

/// That a QP of a flow keeps in its send queue.
inline constexpr std::uint32_t kMessagesOutstanding = 64;

/// What every sender sends: the bytes at an offset of a message are the same in all messages, so that whatever arrived
/// can be checked.
class Pattern {
 public:
  Pattern(std::size_t bytes, std::uint64_t seed);
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Owner: the experiment's thread.
class LabHost {
 public:
  /// `pattern`, as long as the longest message of any host, outlives it, as does `sink`: memory of that length, of
  /// zeros, which others write to.
  LabHost(sim::EventQueue& events, std::unique_ptr<sim::FabricPort> port, std::uint32_t number,
          const Scenario& scenario, Duration base_rtt, Pattern& pattern, std::span<std::byte> sink);
  ~LabHost();
  LabHost(const LabHost&) = delete;
  LabHost& operator=(const LabHost&) = delete;

  std::uint32_t number() const { return sim_.number(); }
  const HostSettings& settings() const { return settings_; }
  sim::SimHost& sim() { return sim_; }

  Qp* make_qp();
  /// Both ends have been made and know nothing of each other yet.
  static void connect(LabHost& from, Qp* sender, LabHost& to, Qp* receiver);
  void destroy_qp(Qp* qp);

  /// RDMA WRITE of the first `bytes` of the pattern to the start of `to`'s memory; `tell`: with immediate.
  void post_write(Qp* qp, LabHost& to, std::uint32_t bytes, std::uint64_t wr_id, bool tell);
  /// For one message that tells.
  void post_receive(Qp* qp, std::uint64_t wr_id);
  /// Called for each completion.
  void set_completion_handler(std::function<void(const Cqe&)> handler) { on_completion_ = std::move(handler); }

  /// Messages have been written here up to this byte: for damaged_bytes().
  void note_written(std::uint64_t bytes) { written_bytes_ = std::max(written_bytes_, bytes); }
  std::uint64_t damaged_bytes(Pattern& pattern) const;

 private:
  void poll();

  const HostSettings settings_;
  sim::SimHost sim_;
  const std::span<std::byte> sink_;
  std::uint64_t written_bytes_ = 0;
  std::array<Cqe, 16> completions_{};  ///< of poll(): not cleared each time
  Pd* pd_ = nullptr;
  Cq* cq_ = nullptr;
  Mr* source_mr_ = nullptr;
  Mr* sink_mr_ = nullptr;
  std::function<void(const Cqe&)> on_completion_;
};

}  // namespace roci::lab
