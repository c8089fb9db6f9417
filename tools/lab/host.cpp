#include "tools/lab/host.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "drivers/faults/fault_port.h"
#include "drivers/sim/rc_connection.h"
#include "stack/base/assert.h"
#include "stack/base/random.h"
#include "stack/control/device.h"

namespace roci::lab {
namespace {

constexpr std::uint64_t kPatternStream = 0x1ab1'0000'0000'0000;
constexpr std::uint64_t kFaultStream = 0x1ab2'0000'0000'0000;
constexpr std::uint64_t kSourceVa = std::uint64_t{1} << 32;
constexpr std::uint64_t kSinkVa = std::uint64_t{1} << 33;
constexpr std::uint32_t kCqEntries = 1024;  // polled after each turn, which makes fewer

/// ibv_mtu code 1 is 256 bytes.
std::uint8_t mtu_code_of(std::uint32_t bytes) { return static_cast<std::uint8_t>(std::bit_width(bytes) - 8); }

/// The faults of all scripts on the links of host `number`, each drawing from the run's seed and the script's own.
std::unique_ptr<Port> with_faults(std::unique_ptr<Port> port, const Scenario& scenario, std::uint32_t number) {
  for (const LinkFaults& faults : scenario.faults) {
    if (std::find(faults.hosts.begin(), faults.hosts.end(), number) == faults.hosts.end()) continue;
    FaultScript script = faults.script;
    script.seed = Random(scenario.seed ^ script.seed, kFaultStream + number).next();
    port = std::make_unique<FaultPort>(std::move(port), std::move(script));
  }
  return port;
}

sim::HostConfig config_of(const Scenario& scenario, std::uint32_t number, Duration base_rtt) {
  const HostSettings& settings = scenario.hosts[number];
  sim::HostConfig config;
  config.device = {.window = {.packets = settings.window_packets, .ack_every_packets = settings.ack_every_packets},
                   .cc = settings.cc,
                   .base_rtt = base_rtt,
                   .egress = settings.egress};
  config.turn_time = {};
  if (!scenario.faults.empty())
    config.decorate = [&scenario, number](std::unique_ptr<Port> port) {
      return with_faults(std::move(port), scenario, number);
    };
  return config;
}

}  // namespace

Pattern::Pattern(std::size_t bytes, std::uint64_t seed) : bytes_(bytes) {
  Random random(seed, kPatternStream);
  // No byte is 0, as memory is that nobody has written to.
  for (std::byte& byte : bytes_) byte = static_cast<std::byte>(1 + random.below(255));
}

LabHost::LabHost(sim::EventQueue& events, std::unique_ptr<sim::FabricPort> port, std::uint32_t number,
                 const Scenario& scenario, Duration base_rtt, Pattern& pattern, std::span<std::byte> sink)
    : settings_(scenario.hosts[number]),
      sim_(events, std::move(port), number, scenario.seed, config_of(scenario, number, base_rtt)),
      sink_(sink) {
  Device& device = sim_.device();
  ROCI_ASSERT(device.alloc_pd(&pd_) == 0);
  ROCI_ASSERT(device.create_cq(kCqEntries, nullptr, &cq_) == 0);
  ROCI_ASSERT(device.reg_mr(pd_, pattern.bytes().data(), pattern.bytes().size(), kSourceVa, 0, &source_mr_) == 0);
  ROCI_ASSERT(
      device.reg_mr(pd_, sink_.data(), sink_.size(), kSinkVa, kAccessLocalWrite | kAccessRemoteWrite, &sink_mr_) == 0);
  sim_.set_application([this] { poll(); });
}

LabHost::~LabHost() {
  Device& device = sim_.device();
  device.dereg_mr(source_mr_);
  device.dereg_mr(sink_mr_);
  device.destroy_cq(cq_);
  device.dealloc_pd(pd_);
}

Qp* LabHost::make_qp() {
  QpInit init{
      .send_cq = cq_,
      .recv_cq = cq_,
      .capacity = {.max_send_wr = kMessagesOutstanding, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  Qp* qp = nullptr;
  ROCI_ASSERT(sim_.device().create_qp(pd_, init, &qp) == 0);
  return qp;
}

void LabHost::connect(LabHost& from, Qp* sender, LabHost& to, Qp* receiver) {
  const auto join = [](LabHost& host, Qp* qp, const LabHost& peer, const Qp* peer_qp, std::uint32_t mtu_bytes) {
    QpAttr attr{.path_mtu = mtu_code_of(mtu_bytes),
                .rq_psn = Psn(0),
                .sq_psn = Psn(0),
                .dest_qpn = peer_qp->qpn(),
                .access_flags = kAccessRemoteWrite,
                .min_rnr_timer = 12,
                .timeout = host.settings_.timeout,
                .retry_cnt = host.settings_.retry_cnt,
                .rnr_retry = 7};
    attr.av.dgid = sim::v4_address(peer.sim_.number());
    ROCI_ASSERT(sim::bring_up(host.sim_.device(), qp, attr) == 0);
  };
  join(to, receiver, from, sender, from.settings_.mtu_bytes);
  join(from, sender, to, receiver, from.settings_.mtu_bytes);
}

void LabHost::destroy_qp(Qp* qp) { ROCI_ASSERT(sim_.device().destroy_qp(qp) == 0); }

void LabHost::post_write(Qp* qp, LabHost& to, std::uint32_t bytes, std::uint64_t wr_id, bool tell) {
  const Sge sge{kSourceVa, bytes, LKey{source_mr_->key}};
  ROCI_ASSERT(sim_.post_send(qp, {.wr_id = wr_id,
                                  .opcode = tell ? WrOpcode::kRdmaWriteWithImm : WrOpcode::kRdmaWrite,
                                  .flags = kSendSignaled,
                                  .num_sge = 1,
                                  .sges = &sge,
                                  .remote_addr = kSinkVa,
                                  .rkey = RKey{to.sink_mr_->key}}) == 0);
}

void LabHost::post_receive(Qp* qp, std::uint64_t wr_id) {
  ROCI_ASSERT(sim_.device().post_recv(qp, {.wr_id = wr_id}) == 0);
}

void LabHost::poll() {
  for (std::size_t n = cq_->poll(completions_); n > 0; n = cq_->poll(completions_))
    for (std::size_t i = 0; i < n; ++i) on_completion_(completions_[i]);
}

std::uint64_t LabHost::damaged_bytes(Pattern& pattern) const {
  std::uint64_t damaged = 0;
  for (std::uint64_t i = 0; i < written_bytes_; ++i) damaged += sink_[i] != pattern.bytes()[i];
  return damaged;
}

}  // namespace roci::lab
