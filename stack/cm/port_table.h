// Which addresses and ports of a port space are taken (IBTA annex A11; the rules are those of sockets).
#pragma once

#include <cstdint>
#include <vector>

#include "stack/base/entropy.h"
#include "stack/cm/connection.h"

namespace roci::cm {

/// Owner: as the ConnectionManager.
class PortTable {
 public:
  explicit PortTable(Entropy& entropy) : entropy_(entropy) {}

  /// Takes `connection.local` for it; port 0 is replaced by a free one. EADDRINUSE, and nothing changed, if another has
  /// it.
  int bind(Connection& connection);
  /// Before listening: nobody may listen on the same address, even if both allow reuse.
  bool may_listen(const Connection& connection) const;
  void unbind(Connection& connection);

  /// Who listens for `to`: the address itself, or the wildcard of its family, or that of IPv6. Null if nobody.
  Connection* find_listener(PortSpace space, const Endpoint& to) const;

 private:
  bool is_free(const Connection& connection) const;

  Entropy& entropy_;
  std::vector<Connection*> bound_;
};

/// 0.0.0.0 or ::.
constexpr bool is_wildcard(const IpAddress& address) {
  return address.is_unspecified() || (address.is_v4() && address.v4_host_order() == 0);
}

}  // namespace roci::cm
