#include "cc/dcqcn.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/unit/cc/rig.h"

namespace roci {
namespace {

constexpr std::uint32_t kB = 10'000'000;      // byte counter of `paper`
constexpr std::uint32_t kMlxB = 32'767 * 64;  // of `mlx`
constexpr std::uint64_t kUnlimited = UINT64_MAX;

const Dcqcn& dcqcn(CcRig& rig) { return static_cast<const Dcqcn&>(rig.algorithm()); }

void expect_stages(CcRig& rig, std::uint32_t timer, std::uint32_t bytes) {
  EXPECT_EQ(dcqcn(rig).stages().timer, timer);
  EXPECT_EQ(dcqcn(rig).stages().bytes, bytes);
}

// Event form, preset `paper`: g = 1/256, K = T = 55 us, B = 10 MB, F = 5, R_AI = 40 Mb/s, R_HAI = 400 Mb/s.

TEST(DcqcnPaper, start__no_limit_and_no_deadline) {
  CcRig rig("dcqcn");
  rig.sent(10, 100 * kB);
  EXPECT_EQ(rig.out().rate_bps, kUnlimited);
  EXPECT_EQ(rig.out().deadline, kNever);
  EXPECT_EQ(rig.current(), 100 * kGbps);
  EXPECT_EQ(rig.algorithm().needs(), kCcCnp | kCcSendEvents);
}

TEST(DcqcnPaper, on_cnp__alpha_1_halves) {
  CcRig rig("dcqcn,preset=paper");
  rig.cnp(7);
  EXPECT_EQ(rig.current(), 50 * kGbps);
  EXPECT_EQ(rig.target(), 100 * kGbps);
  EXPECT_EQ(rig.alpha(), 1.0);  // 255/256 * 1 + 1/256
  EXPECT_EQ(rig.out().rate_bps, 50 * kGbps);
  EXPECT_EQ(rig.out().deadline, CcRig::at(62));
}

TEST(DcqcnPaper, on_cnp__cuts_by_the_alpha_before_it) {
  CcRig rig("dcqcn");
  rig.cnp(0);
  rig.run_to(110);  // two events, (50 + 100) / 2 = 75 and 87.5; two periods without CNP
  EXPECT_EQ(rig.current(), 87'500'000'000u);
  EXPECT_EQ(rig.alpha(), 65'025.0 / 65'536);
  expect_stages(rig, 2, 0);
  rig.cnp(120);
  // Rc * alpha / 2 = 43,408,870,697.02; alpha = 255/256 * 65025/65536 + 1/256 = 16646911/16777216.
  EXPECT_EQ(rig.target(), 87'500'000'000u);
  EXPECT_EQ(rig.current(), 44'091'129'303u);
  EXPECT_EQ(rig.alpha(), 16'646'911.0 / 16'777'216);
  expect_stages(rig, 0, 0);
  // T and K start anew.
  EXPECT_EQ(rig.out().deadline, CcRig::at(175));
}

TEST(DcqcnPaper, alpha__after_k_quiet_periods_is_a_kth_power) {
  CcRig rig("dcqcn,dce_tcp_g=1/2,rpg_time_reset=1s");
  rig.cnp(0);
  double expected = 1;
  for (int k = 1; k <= 100; ++k) {
    expected /= 2;
    rig.algorithm().on_timer(CcRig::at(55 * k), rig.out());
    ASSERT_EQ(rig.alpha(), expected) << k;
  }
  rig.algorithm().on_timer(CcRig::at(55 * 101) - picoseconds(1), rig.out());
  EXPECT_EQ(rig.alpha(), expected);  // the period has not ended
}

TEST(DcqcnPaper, alpha__a_cnp_starts_its_period_anew) {
  CcRig rig("dcqcn,rpg_time_reset=1s");
  rig.cnp(0);
  rig.cnp(30);
  rig.algorithm().on_timer(CcRig::at(84.9), rig.out());
  EXPECT_EQ(rig.alpha(), 1.0);
  rig.algorithm().on_timer(CcRig::at(85), rig.out());
  EXPECT_EQ(rig.alpha(), 255.0 / 256);
}

TEST(DcqcnPaper, alpha__of_g_1_256_is_that_of_as_many_products) {
  CcRig rig("dcqcn,rpg_time_reset=1s");
  rig.cnp(0);
  double expected = 1;
  for (int k = 1; k <= 2000; ++k) {
    expected *= 255.0 / 256;
    rig.algorithm().on_timer(CcRig::at(55 * k), rig.out());
    ASSERT_NEAR(rig.alpha() / expected, 1, 1e-12) << k;
  }
}

TEST(DcqcnPaper, fast_recovery__f_minus_1_events_leave_a_16th_of_the_gap) {
  CcRig rig("dcqcn");
  rig.cnp(0);
  rig.cnp(50);
  EXPECT_EQ(rig.target(), 50 * kGbps);
  EXPECT_EQ(rig.current(), 25 * kGbps);
  rig.run_to(50 + 4 * 55);
  expect_stages(rig, 4, 0);
  EXPECT_EQ(rig.target(), 50 * kGbps);
  EXPECT_EQ(rig.current(), 48'437'500'000u);  // 50 - 25/16
}

TEST(DcqcnPaper, additive__from_the_fth_event_of_either_kind) {
  CcRig rig("dcqcn");
  rig.cnp(0);
  rig.cnp(50);
  rig.run_to(50 + 5 * 55);
  EXPECT_EQ(rig.target(), 50'040'000'000u);
  EXPECT_EQ(rig.current(), 49'238'750'000u);  // (48.4375 + 50.04) / 2
  rig.run_to(50 + 6 * 55);
  EXPECT_EQ(rig.target(), 50'080'000'000u);
  EXPECT_EQ(rig.current(), 49'659'375'000u);
}

TEST(DcqcnPaper, hyper__when_both_counters_reach_f) {
  CcRig rig("dcqcn");
  rig.cnp(0);
  rig.cnp(50);
  for (int i = 0; i < 4; ++i) rig.sent(60, kB);
  EXPECT_EQ(rig.current(), 48'437'500'000u);
  rig.sent(61, kB - 1);
  expect_stages(rig, 0, 4);
  rig.sent(62, 1);
  expect_stages(rig, 0, 5);
  EXPECT_EQ(rig.target(), 50'040'000'000u);
  EXPECT_EQ(rig.current(), 49'238'750'000u);
  rig.run_to(50 + 4 * 55);
  // Rc = 49.659375, 49.8896875, 50.02484375, (50.02484375 + 50.2) / 2
  EXPECT_EQ(rig.target(), 50'200'000'000u);
  EXPECT_EQ(rig.current(), 50'112'421'875u);
  rig.run_to(50 + 5 * 55);
  expect_stages(rig, 5, 5);
  EXPECT_EQ(rig.target(), 50'600'000'000u);
  EXPECT_EQ(rig.current(), 50'356'210'938u);  // (50.112421875 + 50.6) / 2, and half a bit
}

TEST(DcqcnPaper, byte_counter__one_burst_may_be_several_events) {
  CcRig rig("dcqcn,rpg_byte_reset=1KB");
  rig.cnp(0);
  rig.sent(1, 3500);
  expect_stages(rig, 0, 3);
  EXPECT_EQ(rig.current(), 93'750'000'000u);  // 100 - 50/8
  rig.sent(2, 499);
  expect_stages(rig, 0, 3);
  rig.sent(3, 1);
  expect_stages(rig, 0, 4);
  rig.sent(3.5, 500);
  rig.cnp(4);  // the bytes before are forgotten
  rig.sent(5, 999);
  expect_stages(rig, 0, 0);
}

TEST(DcqcnPaper, byte_counter_off__never_hyper) {
  CcRig rig("dcqcn,rpg_byte_reset=off");
  EXPECT_EQ(rig.algorithm().needs(), kCcCnp);
  rig.cnp(0);
  rig.cnp(50);
  rig.sent(60, 100 * kB);
  rig.run_to(50 + 20 * 55);
  expect_stages(rig, 20, 0);
  EXPECT_EQ(rig.target(), 50 * kGbps + 16 * 40'000'000);
}

TEST(DcqcnPaper, release__at_line_rate_there_is_no_limit_until_the_next_cnp) {
  CcRig rig("dcqcn");
  rig.cnp(0);
  rig.run_to(35 * 55);  // 50 Gb/s / 2^35 = 1.46 bit/s are left
  EXPECT_EQ(rig.current(), 100 * kGbps - 1);
  EXPECT_EQ(rig.out().rate_bps, 100 * kGbps - 1);
  rig.run_to(36 * 55);
  EXPECT_EQ(rig.current(), 100 * kGbps);
  EXPECT_EQ(rig.out().rate_bps, kUnlimited);
  EXPECT_EQ(rig.out().deadline, kNever);
  // Alpha went on: 40 periods.
  rig.cnp(40 * 55);
  double alpha = 1;
  for (int k = 0; k < 40; ++k) alpha *= 255.0 / 256;
  EXPECT_NEAR(static_cast<double>(rig.current()), 100e9 * (1 - alpha / 2), 1);
  EXPECT_NEAR(rig.alpha(), alpha * 255 / 256 + 1.0 / 256, 1e-12);
}

TEST(DcqcnPaper, min_rate__holds) {
  CcRig rig("dcqcn,rpg_min_rate=30Gbps");
  rig.cnp(0);
  rig.cnp(1);
  EXPECT_EQ(rig.current(), 30 * kGbps);
  EXPECT_EQ(rig.target(), 50 * kGbps);
}

TEST(DcqcnPaper, min_rate__is_at_most_the_line_rate) {
  CcRig rig("dcqcn,rpg_min_rate=5Gbps", 1 * kGbps);
  rig.cnp(0);
  EXPECT_EQ(rig.current(), 1 * kGbps);
}

TEST(DcqcnPaper, max_rate__is_where_the_limit_ends) {
  CcRig rig("dcqcn,rpg_max_rate=40Gbps");
  rig.cnp(0);
  EXPECT_EQ(rig.target(), 40 * kGbps);
  EXPECT_EQ(rig.current(), 20 * kGbps);
  rig.run_to(36 * 55);
  EXPECT_EQ(rig.out().rate_bps, kUnlimited);
  EXPECT_EQ(rig.current(), 100 * kGbps);
}

TEST(DcqcnPaper, options_of_qcn__multiplier_halving_and_extra_fast_recovery) {
  CcRig rig("dcqcn,rpg_threshold=1,rpg_byte_reset=1KB,hai_multiplier=1,hai_halving=1,rate_to_set_on_first_cnp=10Gbps");
  rig.cnp(0);
  EXPECT_EQ(rig.target(), 10 * kGbps);
  EXPECT_EQ(rig.current(), 5 * kGbps);
  rig.run_to(55);  // iT = 1: additive
  EXPECT_EQ(rig.target(), 10'040'000'000u);
  rig.sent(56, 1000);  // min(1, 1) - 1 + 1 = 1
  EXPECT_EQ(rig.target(), 10'440'000'000u);
  rig.run_to(110);  // min(2, 1)
  EXPECT_EQ(rig.target(), 10'840'000'000u);
  EXPECT_EQ(rig.out().deadline, CcRig::at(110 + 27.5));
  rig.sent(111, 500);  // half of B; min(2, 2) - 1 + 1 = 2
  expect_stages(rig, 2, 2);
  EXPECT_EQ(rig.target(), 11'640'000'000u);

  CcRig extra("dcqcn,extra_fast_recovery=1,clamp_tgt_rate=0");
  for (int i = 0; i < 4; ++i) extra.cnp(i);
  EXPECT_EQ(extra.target(), 100 * kGbps);  // no increase in between: the first Rt is kept
  EXPECT_EQ(extra.current(), 6'250'000'000u);
  extra.run_to(3 + 55);
  EXPECT_EQ(extra.target(), 12'500'000'000u);
  EXPECT_EQ(extra.current(), 9'375'000'000u);
  extra.run_to(3 + 110);  // only the first event
  EXPECT_EQ(extra.target(), 12'500'000'000u);
}

// Sampled form, preset `mlx` on 100 Gb/s: g = 5/1024, K = 1 us, M = 4 us, T = 300 us, F = 1, R_AI = 20 Mb/s,
// R_HAI = 200 Mb/s.

TEST(DcqcnMlx, on_cnp__the_first_only_arms_the_periods) {
  CcRig rig("dcqcn,preset=mlx");
  rig.cnp(10);
  EXPECT_EQ(rig.current(), 100 * kGbps);
  EXPECT_EQ(rig.alpha(), 1023.0 / 1024);
  EXPECT_EQ(rig.out().deadline, CcRig::at(14));
  rig.run_to(14);
  // alpha = 1023/1024 * (1019/1024)^4; Rc * alpha / 2 = 48,982,685,389.84
  EXPECT_NEAR(rig.alpha(), 0.979653707796742, 1e-15);
  EXPECT_EQ(rig.current(), 51'017'314'611u);
  EXPECT_EQ(rig.target(), 100 * kGbps);
  EXPECT_EQ(rig.out().deadline, CcRig::at(314));
}

TEST(DcqcnMlx, cut__once_a_period_and_rt_is_kept_without_an_increase) {
  CcRig rig("dcqcn,preset=mlx");
  rig.cnp(0);
  rig.cnp(5);
  rig.cnp(5.25);  // one flag
  rig.cnp(6.5);
  EXPECT_EQ(rig.out().deadline, CcRig::at(8));
  rig.run_to(8);
  // alpha: 5 us (1-g)a, 6 and 7 us (1-g)a + g, 8 us (1-g)a; Rc * alpha / 2 = 24,752,421,200.26
  EXPECT_NEAR(rig.alpha(), 0.9703537471150049, 1e-15);
  EXPECT_EQ(rig.current(), 26'264'893'411u);
  EXPECT_EQ(rig.target(), 100 * kGbps);
  EXPECT_EQ(rig.out().deadline, CcRig::at(308));
}

TEST(DcqcnMlx, increase__additive_then_hyper) {
  CcRig rig("dcqcn,preset=mlx,rate_to_set_on_first_cnp=20Gbps");
  rig.cnp(0);
  rig.run_to(4);
  EXPECT_EQ(rig.current(), 10'203'462'923u);
  rig.run_to(304);  // iT = 1: 20 Mb/s
  EXPECT_EQ(rig.target(), 20'020'000'000u);
  EXPECT_EQ(rig.current(), 15'111'731'462u);
  rig.sent(310, kMlxB);  // iB = 1: 200 Mb/s
  expect_stages(rig, 1, 1);
  EXPECT_EQ(rig.target(), 20'220'000'000u);
  EXPECT_EQ(rig.current(), 17'665'865'731u);
}

TEST(DcqcnMlx, clamp__what_kind_of_increase_lets_a_cut_copy_rc_to_rt) {
  struct Case {
    const char* options;
    bool timer_event, byte_event, copies;
  };
  for (const Case& c : {Case{"clamp_tgt_rate=1", false, false, true},
                        {"clamp_tgt_rate=0", false, false, false},
                        {"clamp_tgt_rate=0", true, false, true},
                        {"clamp_tgt_rate=0", false, true, true},
                        {"clamp_tgt_rate_after_time_inc=0", true, false, false},
                        {"clamp_tgt_rate_after_time_inc=0", false, true, true}}) {
    CcRig rig(std::string("dcqcn,preset=mlx,") + c.options);
    rig.cnp(0);
    rig.run_to(4);
    if (c.byte_event) rig.sent(5, kMlxB);
    rig.run_to(c.timer_event ? 305 : 6);
    const std::uint64_t before = rig.current();
    rig.cnp(c.timer_event ? 305 : 6);
    rig.run_to(c.timer_event ? 308 : 8);
    expect_stages(rig, 0, 0);
    EXPECT_EQ(rig.target(), c.copies ? before : 100 * kGbps) << c.options << c.timer_event << c.byte_event;
  }
}

TEST(DcqcnMlx, cut__comes_after_a_timer_event_that_is_due_with_it) {
  CcRig rig("dcqcn,preset=mlx");
  rig.cnp(0);
  rig.cnp(301);
  rig.run_to(304);  // 4 + T, and 76 M
  // Rc = 100 - (100 - 51.017314611) / 2, which the cut copies to Rt.
  EXPECT_EQ(rig.target(), 75'508'657'306u);
  expect_stages(rig, 0, 0);
}

TEST(DcqcnMlx, min_dec_fac__a_cut_leaves_that_much) {
  CcRig rig("dcqcn,preset=mlx,rpg_min_dec_fac=75");
  rig.cnp(0);
  rig.run_to(4);
  EXPECT_EQ(rig.current(), 75 * kGbps);
}

TEST(DcqcnMlx, gd__divides_the_cut) {
  CcRig rig("dcqcn,rpg_gd=13");
  rig.cnp(0);
  EXPECT_EQ(rig.current(), 87'500'000'000u);  // alpha / 8
  CcRig whole("dcqcn,rpg_gd=9");
  whole.cnp(0);
  EXPECT_EQ(whole.current(), 100'000'000u);  // 2 alpha is all of it, down to Rmin
}

TEST(DcqcnMlx, increase_rates__scale_with_the_line_rate_unless_set) {
  for (const auto& [options, step] :
       {std::pair{"dcqcn,preset=mlx,rate_to_set_on_first_cnp=10Gbps", 8'000'000u},
        {"dcqcn,preset=mlx,rate_to_set_on_first_cnp=10Gbps,rpg_ai_rate=3Mbps", 3'000'000u}}) {
    CcRig rig(options, 40 * kGbps);
    rig.cnp(0);
    rig.run_to(304);
    EXPECT_EQ(rig.target(), 10 * kGbps + step);
  }
}

TEST(DcqcnMlx, release__the_next_cnp_is_cut_at_the_end_of_its_period) {
  CcRig rig("dcqcn,preset=mlx,rpg_min_dec_fac=99");
  rig.cnp(0);
  rig.run_to(12'000);
  EXPECT_EQ(rig.out().rate_bps, kUnlimited);
  EXPECT_EQ(rig.out().deadline, kNever);
  rig.cnp(12'001);
  EXPECT_EQ(rig.out().deadline, CcRig::at(12'004));
  rig.run_to(12'004);
  expect_stages(rig, 0, 0);
  EXPECT_EQ(rig.out().deadline, CcRig::at(12'304));
}

TEST(DcqcnMlx, release__not_while_a_cut_is_due) {
  CcRig rig("dcqcn,preset=mlx,rpg_min_dec_fac=99");
  rig.cnp(0);
  // The first cut leaves a gap of 1 Gb/s, which is under a bit a second after 30 events: at 4 + 30 T = 2251 M.
  rig.cnp(9003);
  rig.run_to(9004);
  EXPECT_LT(rig.current(), 100 * kGbps);
  EXPECT_EQ(rig.out().rate_bps, rig.current());
  EXPECT_EQ(rig.out().deadline, CcRig::at(9304));
}

// Timer only: the counter is compared before it is incremented, so one fast, one additive, then hyper with F = 1.

TEST(DcqcnTimerOnly, increase__fast_additive_hyper) {
  CcRig rig("dcqcn,preset=mlx,timer_only=1,rate_to_set_on_first_cnp=20Gbps");
  EXPECT_EQ(rig.algorithm().needs(), kCcCnp);
  rig.cnp(0);
  rig.run_to(4);
  rig.sent(5, 1'000'000'000);
  EXPECT_EQ(rig.current(), 10'203'462'923u);
  rig.run_to(304);
  EXPECT_EQ(rig.target(), 20 * kGbps);
  EXPECT_EQ(rig.current(), 15'101'731'462u);
  rig.run_to(604);
  EXPECT_EQ(rig.target(), 20'020'000'000u);
  EXPECT_EQ(rig.current(), 17'560'865'731u);
  rig.run_to(904);
  EXPECT_EQ(rig.target(), 20'220'000'000u);
  EXPECT_EQ(rig.current(), 18'890'432'866u);
  rig.run_to(1204);
  EXPECT_EQ(rig.target(), 20'420'000'000u);
  EXPECT_EQ(rig.current(), 19'655'216'433u);
}

TEST(DcqcnTimerOnly, paper__five_fast_events) {
  CcRig rig("dcqcn,timer_only=1,hai_multiplier=1");
  rig.cnp(0);
  rig.cnp(50);
  rig.run_to(50 + 5 * 55);
  EXPECT_EQ(rig.target(), 50 * kGbps);
  EXPECT_EQ(rig.current(), 49'218'750'000u);  // 50 - 25/32
  rig.run_to(50 + 6 * 55);
  EXPECT_EQ(rig.target(), 50'040'000'000u);
  rig.run_to(50 + 7 * 55);
  EXPECT_EQ(rig.target(), 50'440'000'000u);
  rig.run_to(50 + 8 * 55);
  EXPECT_EQ(rig.target(), 51'240'000'000u);
}

// Properties.

constexpr const char* kVariants[] = {
    "dcqcn",
    "dcqcn,preset=mlx",
    "dcqcn,preset=mlx,timer_only=1,rpg_time_reset=20us",
    "dcqcn,rpg_byte_reset=off,rpg_min_rate=5Gbps",
    "dcqcn,rpg_byte_reset=50KB,rpg_threshold=2,hai_multiplier=1,hai_halving=1,clamp_tgt_rate=0",
    "dcqcn,rpg_byte_reset=50KB,extra_fast_recovery=1,clamp_tgt_rate=0",
    "dcqcn,preset=mlx,rpg_max_rate=60Gbps,rate_to_set_on_first_cnp=30Gbps,rpg_hai_rate=5Gbps,rpg_byte_reset=9KB",
    "dcqcn,form=sampled,rpg_gd=9,rpg_hai_rate=10Gbps,rpg_time_reset=3us,clamp_tgt_rate=0",
};

TEST(DcqcnProperty, random_events__rates_and_alpha_stay_in_bounds) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const char* options : kVariants) {
    CcRig rig(options);
    const auto& parameters = *static_cast<const DcqcnParameters*>(rig.spec().parameters.get());
    double us = 0;
    for (int i = 0; i < 20'000; ++i) {
      us += static_cast<double>(random() % (random() % 20 == 0 ? 2000 : 40)) / 4;
      if (random() % 3 == 0)
        rig.cnp(us);
      else
        rig.sent(us, static_cast<std::uint32_t>(random() % 200'000));
      ASSERT_GE(rig.current(), parameters.min_rate_bps) << options;
      ASSERT_LE(rig.current(), rig.target()) << options;
      ASSERT_LE(rig.target(), 100 * kGbps) << options;
      ASSERT_GE(rig.alpha(), 0) << options;
      ASSERT_LE(rig.alpha(), 1) << options;
      ASSERT_GT(rig.out().deadline, CcRig::at(us)) << options;
      ASSERT_EQ(rig.out().rate_bps, dcqcn(rig).limited() ? rig.current() : kUnlimited) << options;
    }
  }
}

// What is due is the same whether someone looked at its time or only later: no rate depends on when a turn came.
TEST(DcqcnProperty, late_timers__change_nothing_at_the_next_event) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const char* options : kVariants) {
    CcRig exact(options);
    CcRig late(options);
    double us = 0;
    for (int i = 0; i < 5000; ++i) {
      us += static_cast<double>(random() % 400) / 4;
      if (random() % 2 == 0) {
        exact.cnp(us);
        late.algorithm().on_cnp(CcRig::at(us), late.out());
      } else {
        exact.run_to(us);
        late.algorithm().on_timer(CcRig::at(us), late.out());
      }
      ASSERT_EQ(exact.current(), late.current()) << options;
      ASSERT_EQ(exact.target(), late.target()) << options;
      // Alpha decays further as long as someone asks; the exact one was last asked at a deadline.
      exact.algorithm().on_timer(CcRig::at(us), exact.out());
      ASSERT_EQ(exact.alpha(), late.alpha()) << options;
      ASSERT_EQ(exact.out().deadline, late.out().deadline) << options;
    }
  }
}

}  // namespace
}  // namespace roci
