// One id of the communication manager: listening, connecting, connected, or remembered for a while after.
#pragma once

#include <cstdint>

#include "stack/base/deadline_hook.h"
#include "stack/base/types.h"
#include "stack/cm/mad_transport.h"
#include "stack/cm/types.h"
#include "stack/wire/mad.h"

namespace roci::cm {

/// Owner: the ConnectionManager. Users read it, and set `user`.
struct Connection : DeadlineHook {
  State state = State::kIdle;
  PortSpace port_space = PortSpace::kTcp;
  void* user = nullptr;  ///< null: destroyed by its user, but still to say goodbye or to wait
  Endpoint local;
  Endpoint remote;
  bool is_bound = false;  ///< `local` is in the port table
  bool reuse_address = false;
  bool address_family_only = false;  ///< a wildcard for IPv6 does not take IPv4

  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  std::uint64_t remote_guid = 0;
  std::uint64_t transaction_id = 0;  ///< of the exchange under way
  std::uint64_t service_id = 0;
  bool is_active = false;

  MadPath mad_path;
  PathParameters path;
  ConnectionParameters own;
  ConnectionParameters peer;

  // The message that waits for an answer, or that answers a duplicate.
  Mad sent;
  std::uint8_t retries_done = 0;
  Instant deadline = kNever;
  Instant resolve_until{};
  Instant asked_at{};  ///< when the REQ was sent first

  std::uint64_t peer_incarnation = 0;  ///< as the transport tells, when the peer was first heard of
};

}  // namespace roci::cm
