#include "cc/fixed.h"

#include <gtest/gtest.h>

#include "tests/unit/cc/rig.h"

namespace roci {
namespace {

TEST(Fixed, start__rate_and_window_for_good) {
  CcRig rig("fixed,rate=10Gbps,window=64KiB");
  EXPECT_EQ(rig.out().rate_bps, 10 * kGbps);
  EXPECT_EQ(rig.out().window_bytes, 65'536u);
  EXPECT_EQ(rig.out().deadline, kNever);
  EXPECT_EQ(rig.algorithm().needs(), 0u);
  EXPECT_EQ(rig.current(), 10 * kGbps);
  rig.cnp(1);
  EXPECT_EQ(rig.out().rate_bps, 10 * kGbps);
}

TEST(Fixed, start__no_window_is_none) {
  CcRig rig("fixed,rate=1Mbps");
  EXPECT_EQ(rig.out().window_bytes, UINT64_MAX);
  EXPECT_FALSE(rig.spec().sends_cnps);
}

TEST(Fixed, configure__needs_a_rate) {
  EXPECT_EQ(parse_cc("fixed").wrong, "fixed: a rate has to be given, as in fixed,rate=10Gbps");
  EXPECT_EQ(parse_cc("fixed,window=1KB").wrong, "fixed: a rate has to be given, as in fixed,rate=10Gbps");
  EXPECT_EQ(parse_cc("fixed,rate=10").wrong, "fixed: rate: \"10\" has no unit: Gbps, Mbps, Kbps, bps, as in 10Gbps");
  EXPECT_EQ(parse_cc("fixed,rate=1bps").wrong, "fixed: rate: \"1bps\" is not within 1Kbps to 10000Gbps");
  EXPECT_EQ(parse_cc("fixed,rate=1Gbps,window=0B").wrong, "fixed: window: \"0B\" is not within 1B to 1000MB, or off");
}

}  // namespace
}  // namespace roci
