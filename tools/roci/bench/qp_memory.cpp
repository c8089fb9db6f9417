#include "tools/roci/bench/qp_memory.h"

#include <malloc.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "drivers/sim/rc_connection.h"
#include "drivers/sim/simulation.h"
#include "stack/control/device.h"
#include "tools/roci/bench/process.h"

namespace roci::bench {
namespace {

constexpr std::uint32_t kQps = 256;

std::size_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void require(bool good) {
  if (!good) throw Failure("memory of a QP: it cannot be made");
}

/// Up to RTS, to the QP of the same number on a host that is not asked.
void connect(Device& device, Qp* qp, const IpAddress& peer) {
  require(sim::bring_up(device, qp,
                        {.path_mtu = 5,
                         .dest_qpn = qp->qpn(),
                         .access_flags = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic,
                         .av = {.dgid = peer, .port_num = 1, .is_global = true},
                         .max_rd_atomic = 16,
                         .max_dest_rd_atomic = 16,
                         .min_rnr_timer = 12,
                         .timeout = 14,
                         .retry_cnt = 7,
                         .rnr_retry = 7}) == 0);
}

/// Bytes of a QP with queues of `depth`.
double bytes_with_depth(std::uint32_t depth) {
  sim::Simulation simulation(1);
  Device& device = simulation.add_host().device();
  const IpAddress peer = simulation.add_host().device().port_attributes().addresses[0];
  Pd* pd = nullptr;
  Cq* cq = nullptr;
  require(device.alloc_pd(&pd) == 0 && device.create_cq(kQps, nullptr, &cq) == 0);
  const std::size_t before = allocated_bytes();
  std::array<Qp*, kQps> qps{};
  for (Qp*& qp : qps) {
    QpInit init{.send_cq = cq,
                .recv_cq = cq,
                .capacity = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1}};
    require(device.create_qp(pd, init, &qp) == 0);
    connect(device, qp, peer);
  }
  const std::size_t after = allocated_bytes();
  for (Qp* qp : qps) device.destroy_qp(qp);
  device.destroy_cq(cq);
  device.dealloc_pd(pd);
  return static_cast<double>(after - before) / kQps;
}

}  // namespace

double measure_qp_memory() {
  // Queues of half the depth take half the memory: what is left of twice the one less the other is not theirs.
  constexpr std::uint32_t kDepth = 16;
  return 2 * bytes_with_depth(kDepth) - bytes_with_depth(2 * kDepth);
}

}  // namespace roci::bench
