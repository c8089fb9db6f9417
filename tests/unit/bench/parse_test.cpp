// Texts as the programs of Debian 12 print them.
#include "tools/roci/bench/parse.h"

#include <gtest/gtest.h>

namespace roci::bench {
namespace {

constexpr const char* kWriteBandwidth = R"(
 remote address: LID 0000 QPN 0x3807e PSN 0x623566 RKey 0x6f590000 VAddr 0x007f5e85c95000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:198:18:00:01
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      60000            0.00               101.25               0.193119
---------------------------------------------------------------------------------------
)";

constexpr const char* kSendLatency =
    " GID: 00:00:00:00:00:00:00:00:00:00:255:255:198:18:00:01\n"
    "---------------------------------------------------------------------------------------\n"
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
    "99% percentile[usec]   99.9% percentile[usec] \n"
    " 2       10000          0.57           4341.82      0.66     \t       1.59        \t52.64  \t\t0.88    "
    "\t\t26.34  \n"
    "---------------------------------------------------------------------------------------\n";

TEST(Parse, PerftestBandwidth) {
  const auto found = parse_perftest_bandwidth(kWriteBandwidth);
  ASSERT_TRUE(found.has_value());
  EXPECT_DOUBLE_EQ(found->gbps, 101.25);
  EXPECT_DOUBLE_EQ(found->messages_per_s, 193'119);
}

TEST(Parse, PerftestLatency) {
  const auto found = parse_perftest_latency(kSendLatency);
  ASSERT_TRUE(found.has_value());
  EXPECT_DOUBLE_EQ(found->typical, 0.66);
  EXPECT_DOUBLE_EQ(found->percent_99, 0.88);
  EXPECT_DOUBLE_EQ(found->percent_999, 26.34);
}

TEST(Parse, AnotherTableOrNoneIsNotUnderstood) {
  EXPECT_FALSE(parse_perftest_bandwidth(kSendLatency).has_value());
  EXPECT_FALSE(parse_perftest_latency(kWriteBandwidth).has_value());
  EXPECT_FALSE(parse_perftest_bandwidth("Couldn't get context for the device\n").has_value());
  EXPECT_FALSE(parse_perftest_latency("").has_value());
}

TEST(Parse, ANumberBeforeTheTableIsNotOfIt) {
  EXPECT_FALSE(parse_perftest_bandwidth(" 65536      60000   0.00   101.25   0.193119\n").has_value());
}

TEST(Parse, Iperf3TakesWhatWasReceived) {
  const auto found = parse_iperf3(R"({"start": {}, "end": {
    "sum_sent": {"bits_per_second": 18764744154.98, "sender": true},
    "sum_received": {"bits_per_second": 18762000000, "sender": true}}})");
  ASSERT_TRUE(found.has_value());
  EXPECT_DOUBLE_EQ(*found, 18.762);
  EXPECT_FALSE(parse_iperf3(R"({"error": "unable to connect to server"})").has_value());
  EXPECT_FALSE(parse_iperf3("iperf3: error").has_value());
}

TEST(Parse, Sockperf) {
  const auto found = parse_sockperf(
      "sockperf: Summary: Latency is 12.599 usec\n"
      "sockperf: ---> percentile 99.900 = 2033.996\n"
      "sockperf: ---> percentile 99.000 =   15.287\n"
      "sockperf: ---> percentile 90.000 =    8.302\n"
      "sockperf: ---> percentile 50.000 =    7.651\n");
  ASSERT_TRUE(found.has_value());
  EXPECT_DOUBLE_EQ(found->typical, 7.651);
  EXPECT_DOUBLE_EQ(found->percent_99, 15.287);
  EXPECT_DOUBLE_EQ(found->percent_999, 2033.996);
  EXPECT_FALSE(parse_sockperf("sockperf: ERROR: Can't connect socket\n").has_value());
}

TEST(Parse, UcxColumnsAreFoundByName) {
  constexpr const char* kText =
      "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n"
      "2500,6.1,6.2,6.2,1.2,1.2,150000,150000\n"
      "5000,5.958,6.283,6.283,1.21,1.21,159170,159169\n";
  EXPECT_EQ(parse_ucx(kText, "50.0_percentile_lat"), 5.958);
  EXPECT_EQ(parse_ucx(kText, "overall_mr"), 159169);
  EXPECT_FALSE(parse_ucx(kText, "no_such").has_value());
  EXPECT_FALSE(parse_ucx("5000,5.958\n", "overall_mr").has_value());
}

TEST(Parse, ListenersOfProcNet) {
  // Port 18515 is 0x4853; state 0A is LISTEN, 01 ESTABLISHED.
  constexpr const char* kTable =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
      "   0: 00000000:4853 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
      "   1: 0100007F:1F90 0100007F:4854 01 00000000:00000000 00:00000000 00000000     0\n";
  EXPECT_TRUE(lists_listener(kTable, 18515));
  EXPECT_FALSE(lists_listener(kTable, 18516)) << "a peer's port, not a listener's";
  EXPECT_FALSE(lists_listener(kTable, 8080)) << "connected, not listening";
}

std::string limit(EndLoad client, EndLoad server) { return limit_of({client, server}); }

TEST(Limit, AFullRingMeansThatThePeerIsSlower) {
  EXPECT_TRUE(limit({1, 60}, {1, 0}).starts_with("the server: the client finds the ring full 60 times"));
  EXPECT_TRUE(limit({1, 0}, {1, 60}).starts_with("the client: the server finds the ring full 60 times"));
}

TEST(Limit, ElseTheFullCore) {
  EXPECT_EQ(limit({0.99, 0}, {0.62, 0}), "the client's core: client 99 %, server 62 % of a core");
  EXPECT_EQ(limit({0.4, 0}, {0.97, 1}), "the server's core: client 40 %, server 97 % of a core");
  EXPECT_EQ(limit({1, 0}, {0.98, 0}), "both cores: client 100 %, server 98 % of a core");
  EXPECT_EQ(limit({0.5, 0}, {0.5, 0}), "waiting for each other: client 50 %, server 50 % of a core");
}

TEST(Limit, MediansOfEachNumber) {
  const Load median = median_load({{{0.1, 5}, {0.9, 0}}, {{0.3, 1}, {0.7, 2}}, {{0.2, 9}, {0.8, 1}}});
  EXPECT_DOUBLE_EQ(median.client.cores, 0.2);
  EXPECT_DOUBLE_EQ(median.client.ring_full_per_1000, 5);
  EXPECT_DOUBLE_EQ(median.server.cores, 0.8);
  EXPECT_DOUBLE_EQ(median.server.ring_full_per_1000, 1);
}

}  // namespace
}  // namespace roci::bench
