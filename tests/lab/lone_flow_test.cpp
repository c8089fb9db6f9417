// A flow that has the network to itself: section "single flow" of every comparison of simulators.
#include <gtest/gtest.h>

#include "tests/lab/scenarios.h"
#include "tools/lab/experiment.h"

namespace roci::lab {
namespace {

Result lone_flow(std::uint64_t bytes, std::uint32_t mtu_bytes, const std::string& cc = "none") {
  Scenario scenario = star(2);
  scenario.until_done = true;
  for (HostSettings& host : scenario.hosts) {
    host.mtu_bytes = mtu_bytes;
    host.message_bytes = 1 << 20;
  }
  set_cc(scenario, cc);
  scenario.workloads = {incast(1, bytes)};
  return run(scenario);
}

// By hand, at 80 ps a byte: a packet of 1024 bytes has 58 bytes of headers and ICRC and 24 of preamble, FCS and gap:
// 1106 bytes, 88.48 ns; the first one has a RETH of 16 more, 1.28 ns, and all others queue behind it on
// the second link. An ACK has 62 + 24 = 86 bytes, 6.88 ns.
TEST(LoneFlow, fct__of_1_MB_is_the_closed_form_to_the_packet) {
  // 976 full packets and one of 576 bytes (658 on the wire, 52.64 ns); two links each way of 1 us.
  // 976 x 88.48 + 1.28 + 52.64 on the first link, 88.48 + 1.28 on the second, 4 x 1000, 2 x 6.88.
  const Result result = lone_flow(1'000'000, 1024);
  ASSERT_EQ(result.flows.size(), 1u);
  EXPECT_EQ((result.flows[0].end - result.flows[0].start).ps,
            976 * 88'480 + 1'280 + 52'640 + 88'480 + 1'280 + 4'000'000 + 2 * 6'880);
  EXPECT_EQ(result.total.damaged_bytes, 0u);
}

TEST(LoneFlow, fct__of_10_MB_is_the_closed_form_to_the_packet) {
  // 9 WRITEs of 1 MiB, 1024 packets each, and one of 562,816 bytes: 549 full packets and one of 640 bytes (722, 57.76
  // ns). Ten RETHs.
  const Result result = lone_flow(10'000'000, 1024);
  EXPECT_EQ((result.flows[0].end - result.flows[0].start).ps,
            (9 * 1024 + 549) * 88'480ll + 57'760 + 10 * 1'280 + 88'480 + 1'280 + 4'000'000 + 2 * 6'880);
  EXPECT_EQ(result.total.damaged_bytes, 0u);
  EXPECT_EQ(result.total.retransmitted_packets, 0u);
}

TEST(LoneFlow, fct__is_the_ideal_one_of_the_result_with_any_algorithm_and_mtu) {
  for (const char* cc : {"none", "dcqcn,preset=paper", "dcqcn,preset=mlx", "fixed,rate=100Gbps"})
    for (const std::uint32_t mtu : {256u, 1024u, 4096u})
      for (const std::uint64_t bytes : {1ull, 255ull, 4096ull, 4097ull, 100'000ull, 3'000'000ull}) {
        SCOPED_TRACE(std::string(cc) + ", MTU " + std::to_string(mtu) + ", " + std::to_string(bytes) + " bytes");
        const Result result = lone_flow(bytes, mtu, cc);
        EXPECT_EQ((result.flows[0].end - result.flows[0].start).ps, result.flows[0].ideal.ps);
      }
}

}  // namespace
}  // namespace roci::lab
