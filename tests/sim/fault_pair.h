// Two simulated hosts with one connected QP each, a link with faults in each direction, and a log of what their stacks
// sent and received.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/faults/fault_injector.h"
#include "drivers/sim/simulation.h"
#include "tests/sim/recorded_port.h"

namespace roci::simtest {

/// A frame as one of the stacks saw it.
struct SeenFrame {
  Instant at;
  std::uint32_t host;
  bool sent;
  Opcode opcode;
  Psn psn;
  std::uint32_t dma_length;  ///< of a RETH
  AethKind kind;             ///< of an AETH, else kReserved
};

class FaultPair : public FrameObserver {
 public:
  static constexpr std::uint32_t kMtu = 1024;
  static constexpr std::uint32_t kFirstPsn = 0xff'fffe;
  static constexpr std::size_t kBytes = 64 * 1024;

  struct Options {
    std::string to_b;  ///< fault script of the link from A to B
    std::string to_a;
    sim::LinkConfig link;
    QpAttr attr = default_attr();
    DeviceConfig device;
  };
  static QpAttr default_attr() {
    return {.path_mtu = 3,
            .rq_psn = Psn(kFirstPsn),
            .sq_psn = Psn(kFirstPsn),
            .access_flags = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic,
            .max_rd_atomic = 4,
            .max_dest_rd_atomic = 4,
            .min_rnr_timer = 12,
            .timeout = 10,
            .retry_cnt = 7,
            .rnr_retry = 7};
  }

  struct Side {
    sim::SimHost* host = nullptr;
    Pd* pd = nullptr;
    Cq* cq = nullptr;
    Mr* mr = nullptr;
    Qp* qp = nullptr;
    std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
    std::vector<Cqe> completions;

    const Counters& counters() const { return host->counters(); }
    std::uint64_t iova() const { return std::uint64_t{1} << 32; }
    Sge sge(std::uint32_t offset, std::uint32_t length) const { return {iova() + offset, length, LKey{mr->key}}; }
    std::uint64_t word(std::size_t offset) const;
  };

  explicit FaultPair(const Options& options);
  ~FaultPair() override;
  FaultPair(const FaultPair&) = delete;
  FaultPair& operator=(const FaultPair&) = delete;

  /// A posts a request between byte `local` of its memory and byte `remote` of B's.
  void post(WrOpcode opcode, std::uint32_t length, std::uint32_t local = 0, std::uint32_t remote = 0);
  void post_receive(std::uint32_t offset, std::uint32_t length);
  void run(Duration length) { simulation.events().run_until(simulation.now() + length); }

  Duration timeout() const { return nanoseconds(std::int64_t{4096} << attr_.timeout); }
  /// "A> RC_SEND_ONLY 16777214" for each frame sent by either stack, "<" for each received.
  std::vector<std::string> log(bool with_received = false) const;
  std::vector<SeenFrame> sent_by(const Side& side) const;
  /// NAKs for a PSN sequence error, and other NAKs but RNR.
  std::vector<SeenFrame> naks_sent_by(const Side& side) const;

  void on_sent(Instant now, std::uint32_t host, std::span<const std::byte> frame) override;
  void on_received(Instant now, std::uint32_t host, std::span<const std::byte> frame) override;

  sim::Simulation simulation{1};
  std::vector<SeenFrame> seen;
  std::vector<std::vector<std::byte>> cnps;  ///< as B's stack sent them
  Side a;
  Side b;

 private:
  static FaultScript script(const std::string& text);
  void make(Side& side, const Options& options);
  void connect(Side& side, const Side& peer);
  void note(Instant now, std::uint32_t host, bool sent, std::span<const std::byte> frame);

  const QpAttr attr_;
  FaultInjector to_b_;
  FaultInjector to_a_;
  std::uint64_t next_wr_id_ = 1;
};

}  // namespace roci::simtest
