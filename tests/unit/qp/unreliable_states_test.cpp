// Which attributes a UC or UD QP must and may be given on its way (IBTA table 91, as verbs documents it).
#include <gtest/gtest.h>

#include <cerrno>

#include "stack/qp/qp_states.h"

namespace roci {
namespace {

int check(QpType type, QpState from, QpState to, std::uint32_t mask) {
  QpAttr attr{.state = to, .path_mtu = 3};
  attr.cur_state = from;
  return check_modify(type, from, attr, mask | kQpStateAttr);
}

/// The move needs each bit of `required`, takes those of `optional`, and nothing else.
void expect_move(QpType type, QpState from, QpState to, std::uint32_t required, std::uint32_t optional) {
  EXPECT_EQ(check(type, from, to, required), 0) << static_cast<int>(from) << " to " << static_cast<int>(to);
  EXPECT_EQ(check(type, from, to, required | optional), 0);
  for (std::uint32_t bit = 2; bit <= kQpDestQpn; bit <<= 1) {
    if ((required & bit) != 0) {
      EXPECT_EQ(check(type, from, to, required & ~bit), EINVAL) << bit;
    } else if ((optional & bit) == 0) {
      EXPECT_EQ(check(type, from, to, required | bit), EINVAL) << bit;
    }
  }
}

TEST(QpStates, uc__needs_what_a_connection_without_acknowledgements_needs) {
  using enum QpState;
  expect_move(QpType::kUc, kReset, kInit, kQpPkeyIndex | kQpPort | kQpAccessFlags, 0);
  expect_move(QpType::kUc, kInit, kRtr, kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn,
              kQpAltPath | kQpAccessFlags | kQpPkeyIndex);
  expect_move(QpType::kUc, kRtr, kRts, kQpSqPsn, kQpCurState | kQpAltPath | kQpAccessFlags | kQpPathMigState);
  expect_move(QpType::kUc, kSqe, kRts, 0, kQpCurState | kQpAccessFlags);
}

TEST(QpStates, ud__needs_a_q_key_and_a_first_psn) {
  using enum QpState;
  expect_move(QpType::kUd, kReset, kInit, kQpPkeyIndex | kQpPort | kQpQkey, 0);
  expect_move(QpType::kUd, kInit, kRtr, 0, kQpPkeyIndex | kQpQkey);
  expect_move(QpType::kUd, kRtr, kRts, kQpSqPsn, kQpCurState | kQpQkey);
  expect_move(QpType::kUd, kRts, kSqd, 0, kQpEnSqdAsyncNotify);
  expect_move(QpType::kUd, kSqd, kRts, 0, kQpCurState | kQpQkey);
  expect_move(QpType::kUd, kSqe, kRts, 0, kQpCurState | kQpQkey);
}

}  // namespace
}  // namespace roci
