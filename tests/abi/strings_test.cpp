#include <cstring>
#include <set>
#include <string>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

/// Each value has a text of its own, and a value out of range has one too.
template <class Enum>
void expect_texts(const char* (*text_of)(Enum), int first, int last) {
  std::set<std::string> texts;
  for (int value = first; value <= last; ++value) {
    const char* text = text_of(static_cast<Enum>(value));
    ASSERT_NE(text, nullptr) << value;
    EXPECT_STRNE(text, "") << value;
    EXPECT_TRUE(texts.insert(text).second) << text << " twice";
  }
  EXPECT_NE(text_of(static_cast<Enum>(last + 1000)), nullptr);
}

TEST(Strings, texts__are_there_for_each_value_and_none) {
  expect_texts(ibv_node_type_str, IBV_NODE_CA, IBV_NODE_UNSPECIFIED);
  expect_texts(ibv_port_state_str, IBV_PORT_NOP, IBV_PORT_ACTIVE_DEFER);
  expect_texts(ibv_event_type_str, IBV_EVENT_CQ_ERR, IBV_EVENT_WQ_FATAL);
  expect_texts(ibv_wc_status_str, IBV_WC_SUCCESS, IBV_WC_TM_RNDV_INCOMPLETE);
  EXPECT_NE(ibv_wc_status_str(static_cast<ibv_wc_status>(-1)), nullptr);
}

TEST(Strings, port_state_str__is_what_programs_print) {
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_DOWN), "down");
}

struct Rate {
  ibv_rate rate;
  int multiple;  ///< of 2.5 Gb/s
  int mbps;
};

constexpr int kNoMultiple = -1;

/// By IBTA 9.11 and the lane rates; that the later ones have no multiple is what rdma-core's library says.
class Rates : public testing::TestWithParam<Rate> {};

TEST_P(Rates, conversions__go_both_ways) {
  const Rate& row = GetParam();
  EXPECT_EQ(ibv_rate_to_mult(row.rate), row.multiple);
  EXPECT_EQ(mult_to_ibv_rate(row.multiple), row.multiple == kNoMultiple ? IBV_RATE_MAX : row.rate);
  EXPECT_EQ(ibv_rate_to_mbps(row.rate), row.mbps);
  EXPECT_EQ(mbps_to_ibv_rate(row.mbps), row.rate);
}

INSTANTIATE_TEST_SUITE_P(
    Strings, Rates,
    testing::Values(Rate{IBV_RATE_2_5_GBPS, 1, 2500}, Rate{IBV_RATE_5_GBPS, 2, 5000}, Rate{IBV_RATE_10_GBPS, 4, 10000},
                    Rate{IBV_RATE_20_GBPS, 8, 20000}, Rate{IBV_RATE_30_GBPS, 12, 30000},
                    Rate{IBV_RATE_40_GBPS, 16, 40000}, Rate{IBV_RATE_60_GBPS, 24, 60000},
                    Rate{IBV_RATE_80_GBPS, 32, 80000}, Rate{IBV_RATE_120_GBPS, 48, 120000},
                    Rate{IBV_RATE_14_GBPS, kNoMultiple, 14062}, Rate{IBV_RATE_56_GBPS, kNoMultiple, 56250},
                    Rate{IBV_RATE_112_GBPS, kNoMultiple, 112500}, Rate{IBV_RATE_168_GBPS, kNoMultiple, 168750},
                    Rate{IBV_RATE_25_GBPS, kNoMultiple, 25781}, Rate{IBV_RATE_100_GBPS, kNoMultiple, 103125},
                    Rate{IBV_RATE_200_GBPS, kNoMultiple, 206250}, Rate{IBV_RATE_300_GBPS, kNoMultiple, 309375},
                    Rate{IBV_RATE_28_GBPS, 11, 28125}, Rate{IBV_RATE_50_GBPS, 20, 53125},
                    Rate{IBV_RATE_400_GBPS, 160, 425000}, Rate{IBV_RATE_600_GBPS, 240, 637500}));

TEST(Strings, conversions__unknown_rates_have_their_own_answers) {
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_MAX), -1);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
  EXPECT_EQ(mult_to_ibv_rate(3), IBV_RATE_MAX);
  EXPECT_EQ(mbps_to_ibv_rate(1), IBV_RATE_MAX);
}

}  // namespace
}  // namespace roci::abi
