// What the communication manager and its users say to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/base/types.h"
#include "stack/wire/address.h"

namespace roci::cm {

/// IBTA 12.9.5 and 12.9.6, with one state for each message that is waited for.
enum class State : std::uint8_t {
  kIdle,
  kResolving,  ///< the peer's address is looked for
  kListen,
  kReqSent,
  kMraReqReceived,  ///< the peer needs longer to answer the REQ
  kReqReceived,
  kRepSent,
  kMraRepReceived,  ///< the peer needs longer to answer the REP
  kRepReceived,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimewait,
  kSidrReqSent,
  kSidrReqReceived,
  kSidrReplied,
};

/// Reasons of a REJ (IBTA 12.6.7.2, table 107): those that are given here.
enum class RejectReason : std::uint16_t {
  kTimeout = 4,
  kInvalidCommunicationId = 6,
  kInvalidServiceId = 8,
  kInvalidTransportService = 9,
  kStaleConnection = 10,
  kInvalidPrimaryGid = 12,
  kInvalidPathMtu = 26,
  kConsumer = 28,
};

/// Status of a SIDR REP (IBTA 12.6.11).
enum class SidrStatus : std::uint8_t { kSuccess = 0, kUnsupported = 1, kRejected = 2, kNoQp = 3 };

enum class PortSpace : std::uint16_t { kIpoib = 0x0002, kTcp = 0x0106, kUdp = 0x0111, kIb = 0x013f };

/// A consumer's address: what IP CM calls an IP address and a port.
struct Endpoint {
  IpAddress address;
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

/// What two ends agree on, each seen from its own side.
struct ConnectionParameters {
  Qpn qpn;                               ///< the sender's own
  Psn starting_psn;                      ///< of the first request that the sender expects (IBTA 12.7.31)
  std::uint32_t qkey = 0;                ///< datagrams only
  std::uint8_t responder_resources = 0;  ///< READs and atomics that this side answers at a time
  std::uint8_t initiator_depth = 0;      ///< READs and atomics that this side asks for at a time
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  bool flow_control = false;
  bool srq = false;
};

/// The path of a connection's data, as the active side chooses it.
struct PathParameters {
  std::uint8_t path_mtu = 0;  ///< code of ibv_mtu
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t ack_timeout = 0;  ///< 4.096 us x 2^n
  std::uint32_t flow_label = 0;
  bool is_unreliable = false;  ///< between UC QPs
};

/// The top 6 bits of a communication id are those of its process's QPNs.
inline constexpr unsigned kIdBlockShift = 26;

struct Connection;

enum class EventType : std::uint8_t {
  kAddressResolved,
  kAddressError,  ///< nobody has it; status: EHOSTUNREACH
  kRequest,       ///< `connection` is new, made for this request
  kReply,         ///< a REP has come: establish() or reject() is next
  kEstablished,
  kRejected,      ///< status: RejectReason
  kUnreachable,   ///< no answer; status: ETIMEDOUT
  kDisconnected,  ///< status: 0, or ETIMEDOUT if the peer did not answer
  kTimewaitExit,
  kDatagramReply,  ///< status: SidrStatus
};

struct Event {
  EventType type{};
  Connection* connection = nullptr;
  Connection* listener = nullptr;  ///< kRequest only
  std::uint32_t status = 0;
  ConnectionParameters peer;  ///< kRequest, kReply, kDatagramReply: as this side sees it, `qpn` and `qkey` the peer's
  std::span<const std::byte> private_data;  ///< all the room that the message has; valid during the call
};

/// Called with the manager in the middle of its work: it must not call back.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  /// For a kRequest, sets the new connection's user; false refuses it.
  virtual bool on_cm_event(const Event& event) = 0;
};

}  // namespace roci::cm
