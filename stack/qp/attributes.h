// QP states and attributes, with the values of verbs (ibv_qp_state, ibv_qp_attr_mask, ibv_access_flags).
#pragma once

#include <cstdint>

#include "stack/base/types.h"
#include "stack/mem/memory.h"
#include "stack/wire/address.h"

namespace roci {

enum class QpType : std::uint8_t { kRc = 2, kUc = 3, kUd = 4 };

/// IBTA 10.3.1. Values of ibv_qp_state.
enum class QpState : std::uint8_t { kReset = 0, kInit = 1, kRtr = 2, kRts = 3, kSqd = 4, kSqe = 5, kErr = 6 };

/// Values of ibv_qp_attr_mask.
enum QpAttrMask : std::uint32_t {
  kQpStateAttr = 1 << 0,
  kQpCurState = 1 << 1,
  kQpEnSqdAsyncNotify = 1 << 2,
  kQpAccessFlags = 1 << 3,
  kQpPkeyIndex = 1 << 4,
  kQpPort = 1 << 5,
  kQpQkey = 1 << 6,
  kQpAv = 1 << 7,
  kQpPathMtu = 1 << 8,
  kQpTimeout = 1 << 9,
  kQpRetryCnt = 1 << 10,
  kQpRnrRetry = 1 << 11,
  kQpRqPsn = 1 << 12,
  kQpMaxQpRdAtomic = 1 << 13,
  kQpAltPath = 1 << 14,
  kQpMinRnrTimer = 1 << 15,
  kQpSqPsn = 1 << 16,
  kQpMaxDestRdAtomic = 1 << 17,
  kQpPathMigState = 1 << 18,
  kQpCap = 1 << 19,
  kQpDestQpn = 1 << 20,
  kQpRateLimit = 1 << 25,
};

/// Address vector: where packets of a QP or an address handle go.
struct AddressVector {
  IpAddress dgid;
  std::uint32_t flow_label = 0;
  std::uint8_t sgid_index = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint8_t sl = 0;
  std::uint8_t static_rate = 0;
  std::uint8_t port_num = 1;
  bool is_global = true;
};

struct QpAttr {
  QpState state = QpState::kReset;
  QpState cur_state = QpState::kReset;
  std::uint8_t path_mtu = 0;  ///< code of ibv_mtu: 1 = 256 ... 5 = 4096 bytes
  std::uint32_t qkey = 0;
  Psn rq_psn;
  Psn sq_psn;
  Qpn dest_qpn;
  std::uint32_t access_flags = 0;  ///< AccessFlag bits
  AddressVector av;
  std::uint16_t pkey_index = 0;
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t port_num = 1;
  std::uint8_t timeout = 0;
  std::uint8_t retry_cnt = 0;
  std::uint8_t rnr_retry = 0;
  bool en_sqd_async_notify = false;
  bool sq_draining = false;
};

struct QpCapacity {
  std::uint32_t max_send_wr = 0;
  std::uint32_t max_recv_wr = 0;
  std::uint32_t max_send_sge = 0;
  std::uint32_t max_recv_sge = 0;
  std::uint32_t max_inline_data = 0;
};

constexpr std::uint32_t mtu_bytes(std::uint8_t code) { return 128u << code; }

}  // namespace roci
