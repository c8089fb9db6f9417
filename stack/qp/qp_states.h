// Which moves between QP states are allowed, and which attributes each requires or allows (IBTA 11.2.5.2, table 91).
#pragma once

#include <cstdint>

#include "stack/qp/attributes.h"

namespace roci {

/// 0 if a QP of `type` may go from `current` as `attr` and `mask` ask, else EINVAL. Without kQpStateAttr the state
/// stays. Checks the attributes' ranges that need no knowledge of the port.
int check_modify(QpType type, QpState current, const QpAttr& attr, std::uint32_t mask);

}  // namespace roci
