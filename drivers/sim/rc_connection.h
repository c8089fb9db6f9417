// An RC connection of two simulated hosts, without a connection manager.
#pragma once

#include "stack/control/device.h"

namespace roci::sim {

/// Takes an RC QP from RESET to RTS, with the address, numbers and limits of `attr`. An errno.
inline int bring_up(Device& device, Qp* qp, QpAttr attr) {
  attr.state = QpState::kInit;
  int error = device.modify_qp(qp, attr, kQpStateAttr | kQpPkeyIndex | kQpPort | kQpAccessFlags);
  attr.state = QpState::kRtr;
  constexpr std::uint32_t kRtr =
      kQpStateAttr | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic | kQpMinRnrTimer;
  if (error == 0) error = device.modify_qp(qp, attr, kRtr);
  attr.state = QpState::kRts;
  constexpr std::uint32_t kRts = kQpStateAttr | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpSqPsn | kQpMaxQpRdAtomic;
  return error == 0 ? device.modify_qp(qp, attr, kRts) : error;
}

}  // namespace roci::sim
