// Every fault a responder can find, in one table: what goes on the wire, what the receive WQE completes with, what
// becomes of the QP, and the clause of the IBTA specification (volume 1, release 1.4) that says so.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "stack/queues/completion_queue.h"
#include "stack/queues/work.h"
#include "stack/wire/headers.h"

namespace roci {

enum class Fault : std::uint8_t {
  kNone,
  kSequence,           ///< PSN ahead of the expected one
  kReceiverNotReady,   ///< no receive WQE
  kOpcodeSequence,     ///< opcode does not follow the previous one
  kOpcodeNotEnabled,   ///< operation not among the QP's access flags
  kLength,             ///< payload does not fit the position, the MTU or the RETH
  kTooManyReads,       ///< more READs and atomics than the responder's resources
  kMisaligned,         ///< atomic address not a multiple of 8
  kReceiveTooShort,    ///< message longer than the receive WQE's elements
  kReceiveProtection,  ///< L_Key, range or page of the receive WQE's elements is bad
  kRemoteAccess,       ///< R_Key, range or rights, or the page is gone
  kInvalidate,         ///< SEND with invalidate, arrived whole, of a key that is not the peer's to invalidate
};

enum class FaultAnswer : std::uint8_t {
  kNak,
  kRnrNak,
  kAck,  ///< what is at fault concerns the responder alone
};

struct FaultInfo {
  Fault fault;
  FaultAnswer answer;
  NakCode nak;              ///< for FaultAnswer::kNak
  WcStatus receive_status;  ///< of a receive WQE in use; kSuccess when it is left alone
  bool is_fatal;            ///< the QP goes to ERR; the answer still leaves
  AsyncEventType event;     ///< raised when fatal
  std::string_view clause;
};

inline constexpr auto kFaults = std::to_array<FaultInfo>({
    {Fault::kNone, FaultAnswer::kNak, {}, WcStatus::kSuccess, false, {}, ""},
    {Fault::kSequence,
     FaultAnswer::kNak,
     NakCode::kPsnSequenceError,
     WcStatus::kSuccess,
     false,
     {},
     "9.7.5.1.1, C9-107"},
    {Fault::kReceiverNotReady, FaultAnswer::kRnrNak, {}, WcStatus::kSuccess, false, {}, "9.7.5.2.8, C9-110"},
    {Fault::kOpcodeSequence, FaultAnswer::kNak, NakCode::kInvalidRequest, WcStatus::kRemInvReqErr, true,
     AsyncEventType::kQpReqErr, "9.7.4.1.2, table 58 class C"},
    {Fault::kOpcodeNotEnabled, FaultAnswer::kNak, NakCode::kInvalidRequest, WcStatus::kRemInvReqErr, true,
     AsyncEventType::kQpReqErr, "9.7.4.1.4, table 58 class C"},
    {Fault::kLength, FaultAnswer::kNak, NakCode::kInvalidRequest, WcStatus::kRemInvReqErr, true,
     AsyncEventType::kQpReqErr, "9.7.4.1.6, table 58 class C"},
    {Fault::kTooManyReads, FaultAnswer::kNak, NakCode::kInvalidRequest, WcStatus::kSuccess, true,
     AsyncEventType::kQpReqErr, "9.7.4.1.3, table 58 class C"},
    {Fault::kMisaligned, FaultAnswer::kNak, NakCode::kInvalidRequest, WcStatus::kSuccess, true,
     AsyncEventType::kQpReqErr, "9.4.5, o9-17; table 58 class C"},
    {Fault::kReceiveTooShort, FaultAnswer::kNak, NakCode::kInvalidRequest, WcStatus::kLocLenErr, true,
     AsyncEventType::kQpReqErr, "9.7.4.1.6, table 58 class C"},
    {Fault::kReceiveProtection, FaultAnswer::kNak, NakCode::kRemoteOperationalError, WcStatus::kLocProtErr, true,
     AsyncEventType::kQpFatal, "9.7.5.2.7, table 58 class A"},
    {Fault::kRemoteAccess, FaultAnswer::kNak, NakCode::kRemoteAccessError, WcStatus::kLocAccessErr, true,
     AsyncEventType::kQpAccessErr, "9.7.4.1.5, table 58 class C"},
    {Fault::kInvalidate,
     FaultAnswer::kAck,
     {},
     WcStatus::kRemInvReqErr,
     true,
     AsyncEventType::kQpAccessErr,
     "table 58 class J"},
});

constexpr const FaultInfo& fault_info(Fault fault) { return kFaults[static_cast<std::size_t>(fault)]; }

static_assert([] {
  for (std::size_t i = 0; i < kFaults.size(); ++i)
    if (static_cast<std::size_t>(kFaults[i].fault) != i) return false;
  return true;
}());

}  // namespace roci
