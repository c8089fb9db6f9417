#include "stack/cm/port_table.h"

#include <cerrno>

namespace roci::cm {
namespace {

constexpr std::uint16_t kFirstEphemeral = 32768;
constexpr std::uint16_t kLastEphemeral = 60999;

/// A wildcard of IPv6 takes IPv4 too, unless it was told not to.
bool covers(const Connection& wildcard, const IpAddress& address) {
  if (!is_wildcard(wildcard.local.address)) return false;
  if (wildcard.local.address.is_v4() == address.is_v4()) return true;
  return !wildcard.local.address.is_v4() && !wildcard.address_family_only;
}

bool overlap(const Connection& a, const Connection& b) {
  return a.port_space == b.port_space && a.local.port == b.local.port &&
         (a.local.address == b.local.address || covers(a, b.local.address) || covers(b, a.local.address));
}

}  // namespace

bool PortTable::is_free(const Connection& connection) const {
  for (const Connection* other : bound_) {
    if (other == &connection || !overlap(connection, *other)) continue;
    const bool shared = connection.reuse_address && other->reuse_address && other->state != State::kListen;
    if (!shared) return false;
  }
  return true;
}

int PortTable::bind(Connection& connection) {
  if (connection.local.port == 0) {
    constexpr std::uint32_t kCount = kLastEphemeral - kFirstEphemeral + 1;
    const auto start = static_cast<std::uint32_t>(entropy_.next() % kCount);
    // Nobody shares a port that was chosen for it.
    const bool reuse = connection.reuse_address;
    connection.reuse_address = false;
    std::uint32_t tried = 0;
    for (; tried < kCount; ++tried) {
      connection.local.port = static_cast<std::uint16_t>(kFirstEphemeral + (start + tried) % kCount);
      if (is_free(connection)) break;
    }
    connection.reuse_address = reuse;
    if (tried == kCount) {
      connection.local.port = 0;
      return EADDRINUSE;
    }
  } else if (!is_free(connection)) {
    return EADDRINUSE;
  }
  if (!connection.is_bound) bound_.push_back(&connection);
  connection.is_bound = true;
  return 0;
}

bool PortTable::may_listen(const Connection& connection) const {
  for (const Connection* other : bound_)
    if (other != &connection && other->state == State::kListen && overlap(connection, *other)) return false;
  return true;
}

void PortTable::unbind(Connection& connection) {
  if (connection.is_bound) std::erase(bound_, &connection);
  connection.is_bound = false;
}

Connection* PortTable::find_listener(PortSpace space, const Endpoint& to) const {
  Connection* wildcard = nullptr;
  for (Connection* candidate : bound_) {
    if (candidate->state != State::kListen || candidate->port_space != space || candidate->local.port != to.port)
      continue;
    if (candidate->local.address == to.address) return candidate;
    // A wildcard of the very family stands before that of IPv6 for IPv4.
    const bool same_family = candidate->local.address.is_v4() == to.address.is_v4();
    if (covers(*candidate, to.address) && (wildcard == nullptr || same_family)) wildcard = candidate;
  }
  return wildcard;
}

}  // namespace roci::cm
