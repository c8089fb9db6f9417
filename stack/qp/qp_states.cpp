#include "stack/qp/qp_states.h"

#include <array>
#include <cerrno>
#include <span>

namespace roci {
namespace {

/// A move between two states: the attributes that must come with it, and those that may.
struct Move {
  QpState from;
  QpState to;
  std::uint32_t required;
  std::uint32_t optional;
};

constexpr std::uint32_t kPathAttrs = kQpAltPath | kQpPathMigState;
constexpr std::uint32_t kInitConnected = kQpPkeyIndex | kQpPort | kQpAccessFlags;
constexpr std::uint32_t kRtsOptionalRc = kQpCurState | kQpAccessFlags | kQpMinRnrTimer | kPathAttrs;
constexpr std::uint32_t kSqdOptionalRc = kQpPort | kQpAv | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic |
                                         kQpMaxDestRdAtomic | kQpAccessFlags | kQpPkeyIndex | kQpMinRnrTimer |
                                         kPathAttrs;

constexpr auto kMovesRc = std::to_array<Move>({
    {QpState::kReset, QpState::kReset, 0, 0},
    {QpState::kReset, QpState::kInit, kInitConnected, 0},
    {QpState::kInit, QpState::kInit, 0, kInitConnected},
    {QpState::kInit, QpState::kRtr, kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic | kQpMinRnrTimer,
     kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
    {QpState::kRtr, QpState::kRts, kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpSqPsn | kQpMaxQpRdAtomic,
     kRtsOptionalRc},
    {QpState::kRts, QpState::kRts, 0, kRtsOptionalRc},
    {QpState::kRts, QpState::kSqd, 0, kQpEnSqdAsyncNotify},
    {QpState::kSqd, QpState::kRts, 0, kRtsOptionalRc},
    {QpState::kSqd, QpState::kSqd, 0, kSqdOptionalRc},
});

constexpr std::uint32_t kRtsOptionalUc = kQpCurState | kQpAccessFlags | kPathAttrs;

constexpr auto kMovesUc = std::to_array<Move>({
    {QpState::kReset, QpState::kReset, 0, 0},
    {QpState::kReset, QpState::kInit, kInitConnected, 0},
    {QpState::kInit, QpState::kInit, 0, kInitConnected},
    {QpState::kInit, QpState::kRtr, kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn,
     kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
    {QpState::kRtr, QpState::kRts, kQpSqPsn, kRtsOptionalUc},
    {QpState::kRts, QpState::kRts, 0, kRtsOptionalUc},
    {QpState::kRts, QpState::kSqd, 0, kQpEnSqdAsyncNotify},
    {QpState::kSqd, QpState::kRts, 0, kRtsOptionalUc},
    {QpState::kSqd, QpState::kSqd, 0, kQpAv | kQpAccessFlags | kQpPkeyIndex | kPathAttrs},
    {QpState::kSqe, QpState::kRts, 0, kQpCurState | kQpAccessFlags},
});

constexpr std::uint32_t kInitUd = kQpPkeyIndex | kQpPort | kQpQkey;
constexpr std::uint32_t kRtsOptionalUd = kQpCurState | kQpQkey;

constexpr auto kMovesUd = std::to_array<Move>({
    {QpState::kReset, QpState::kReset, 0, 0},
    {QpState::kReset, QpState::kInit, kInitUd, 0},
    {QpState::kInit, QpState::kInit, 0, kInitUd},
    {QpState::kInit, QpState::kRtr, 0, kQpPkeyIndex | kQpQkey},
    {QpState::kRtr, QpState::kRts, kQpSqPsn, kRtsOptionalUd},
    {QpState::kRts, QpState::kRts, 0, kRtsOptionalUd},
    {QpState::kRts, QpState::kSqd, 0, kQpEnSqdAsyncNotify},
    {QpState::kSqd, QpState::kRts, 0, kRtsOptionalUd},
    {QpState::kSqd, QpState::kSqd, 0, kQpPkeyIndex | kQpQkey},
    {QpState::kSqe, QpState::kRts, 0, kRtsOptionalUd},
});

std::span<const Move> moves_of(QpType type) {
  switch (type) {
    case QpType::kUc:
      return kMovesUc;
    case QpType::kUd:
      return kMovesUd;
    default:
      return kMovesRc;
  }
}

const Move* find_move(QpType type, QpState from, QpState to) {
  for (const Move& move : moves_of(type))
    if (move.from == from && move.to == to) return &move;
  return nullptr;
}

bool ranges_ok(const QpAttr& attr, std::uint32_t mask) {
  if ((mask & kQpPathMtu) != 0 && (attr.path_mtu < 1 || attr.path_mtu > 5)) return false;
  if ((mask & kQpTimeout) != 0 && attr.timeout > 31) return false;
  if ((mask & kQpRetryCnt) != 0 && attr.retry_cnt > 7) return false;
  if ((mask & kQpRnrRetry) != 0 && attr.rnr_retry > 7) return false;
  if ((mask & kQpMinRnrTimer) != 0 && attr.min_rnr_timer > 31) return false;
  if ((mask & kQpPkeyIndex) != 0 && attr.pkey_index != 0) return false;
  if ((mask & kQpPort) != 0 && attr.port_num != 1) return false;
  // RoCE has no LID: a path without a GRH leads nowhere (IBTA A17.4).
  if ((mask & kQpAv) != 0 && (!attr.av.is_global || attr.av.port_num != 1)) return false;
  return true;
}

}  // namespace

int check_modify(QpType type, QpState current, const QpAttr& attr, std::uint32_t mask) {
  const std::uint32_t given = mask & ~std::uint32_t{kQpStateAttr};
  const QpState next = (mask & kQpStateAttr) != 0 ? attr.state : current;
  if ((mask & kQpCurState) != 0 && attr.cur_state != current) return EINVAL;
  // From any state to RESET, and from any but RESET to ERR (as Linux has it), with nothing else.
  if ((mask & kQpStateAttr) != 0 && (next == QpState::kReset || next == QpState::kErr)) {
    const bool leads_there = next == QpState::kReset || current != QpState::kReset;
    return leads_there && (given & ~std::uint32_t{kQpCurState}) == 0 ? 0 : EINVAL;
  }
  const Move* move = find_move(type, current, next);
  if (move == nullptr) return EINVAL;
  if ((given & move->required) != move->required) return EINVAL;
  if ((given & ~(move->required | move->optional)) != 0) return EINVAL;
  return ranges_ok(attr, mask) ? 0 : EINVAL;
}

}  // namespace roci
