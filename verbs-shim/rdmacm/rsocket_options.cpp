// Options of rsockets. What only TCP has is taken and does nothing.
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs-shim/rdmacm/ids.h"
#include "verbs-shim/rdmacm/rsocket.h"

namespace roci::shim {
namespace {

constexpr std::uint32_t kLeastMessages = 16;
constexpr std::uint32_t kMostMessages = 16383;
constexpr std::uint32_t kMostMappings = 0x7fff;
constexpr std::uint32_t kLeastBuffer = 4096;

/// The number of an option that is one, with its limits.
std::uint32_t* number_of(RsocketSettings& settings, int level, int name, std::uint32_t* least, std::uint32_t* most) {
  *least = kLeastMessages;
  *most = kMostMessages;
  if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF)) {
    *least = kLeastBuffer;
    *most = UINT32_MAX / 2;
    return name == SO_SNDBUF ? &settings.send_bytes : &settings.receive_bytes;
  }
  if (level != SOL_RDMA) return nullptr;
  switch (name) {
    case RDMA_SQSIZE:
      return &settings.send_messages;
    case RDMA_RQSIZE:
      return &settings.receive_messages;
    case RDMA_INLINE:
      // An announcement of a buffer, or of a mapping, always goes inline.
      *least = sizeof(RemoteMapping);
      *most = 512;
      return &settings.inline_bytes;
    case RDMA_IOMAPSIZE:
      *least = 0;
      *most = kMostMappings;
      return &settings.mapping_slots;
    default:
      return nullptr;
  }
}

int set_switch(Rsocket& socket, int level, int name, int value) {
  RsocketSettings& settings = socket.settings();
  if (level == SOL_SOCKET && name == SO_REUSEADDR)
    return rdma_set_option(socket.id(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &value, sizeof value);
  if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
    return rdma_set_option(socket.id(), RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &value, sizeof value);
  if (level == SOL_SOCKET && name == SO_KEEPALIVE) return settings.keepalive = value != 0, 0;
  if (level == SOL_SOCKET && name == SO_OOBINLINE) return settings.oob_inline = value != 0, 0;
  if (level == IPPROTO_TCP && name == TCP_NODELAY) return settings.nodelay = value != 0, 0;
  if (level == IPPROTO_TCP && name == TCP_KEEPIDLE) return settings.keepalive_seconds = value, 0;
  if (level == IPPROTO_TCP && name == TCP_MAXSEG) return 0;
  return fail(ENOTSUP);
}

int set_option(Rsocket& socket, int level, int name, const void* value, socklen_t bytes) {
  if (level == SOL_SOCKET && name == SO_LINGER && bytes == sizeof(linger)) {
    std::memcpy(&socket.settings().close_linger, value, bytes);
    return 0;
  }
  if (bytes != sizeof(int)) return fail(level == SOL_RDMA && name == RDMA_ROUTE ? ENOTSUP : EINVAL);
  int number = 0;
  std::memcpy(&number, value, sizeof number);
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  std::uint32_t* setting = number_of(socket.settings(), level, name, &least, &most);
  if (setting == nullptr) return set_switch(socket, level, name, number);
  // Buffers and queues are made when the connection is.
  using State = Rsocket::State;
  if (socket.state() != State::kNew && socket.state() != State::kBound && socket.state() != State::kListening)
    return level == SOL_SOCKET ? 0 : fail(EINVAL);
  const auto wanted = static_cast<std::uint32_t>(std::max(number, 0));
  *setting = std::clamp(wanted, least, most);
  // Two halves, each a whole number of cache lines.
  if (level == SOL_SOCKET) *setting = *setting / 128 * 128;
  if (name == RDMA_IOMAPSIZE && level == SOL_RDMA) *setting = decode_slots(encode_slots(*setting));
  return 0;
}

int get_switch(Rsocket& socket, int level, int name, int* value) {
  const RsocketSettings& settings = socket.settings();
  if (level == SOL_SOCKET && name == SO_KEEPALIVE) return *value = settings.keepalive, 0;
  if (level == SOL_SOCKET && name == SO_OOBINLINE) return *value = settings.oob_inline, 0;
  if (level == SOL_SOCKET && name == SO_ERROR) return *value = socket.take_error(), 0;
  if (level == SOL_SOCKET && name == SO_TYPE) return *value = SOCK_STREAM, 0;
  if (level == IPPROTO_TCP && name == TCP_NODELAY) return *value = settings.nodelay, 0;
  if (level == IPPROTO_TCP && name == TCP_KEEPIDLE) return *value = settings.keepalive_seconds, 0;
  if (level == IPPROTO_TCP && name == TCP_MAXSEG) {
    constexpr int kMinimumMtuBytes = 2048;
    return *value = kMinimumMtuBytes, 0;
  }
  return fail(ENOTSUP);
}

int get_option(Rsocket& socket, int level, int name, void* value, socklen_t* bytes) {
  if (level == SOL_SOCKET && name == SO_LINGER && *bytes >= sizeof(linger)) {
    std::memcpy(value, &socket.settings().close_linger, sizeof(linger));
    *bytes = sizeof(linger);
    return 0;
  }
  if (*bytes < sizeof(int)) return fail(EINVAL);
  int number = 0;
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  if (const std::uint32_t* setting = number_of(socket.settings(), level, name, &least, &most))
    number = static_cast<int>(*setting);
  else if (get_switch(socket, level, name, &number) != 0)
    return -1;
  std::memcpy(value, &number, sizeof number);
  *bytes = sizeof number;
  return 0;
}

}  // namespace
}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT int rsetsockopt(int fd, int level, int name, const void* value, socklen_t bytes) {
  const std::shared_ptr<Rsocket> socket = find_rsocket(fd);
  return socket == nullptr ? -1 : set_option(*socket, level, name, value, bytes);
}

ROCI_EXPORT int rgetsockopt(int fd, int level, int name, void* value, socklen_t* bytes) {
  const std::shared_ptr<Rsocket> socket = find_rsocket(fd);
  return socket == nullptr ? -1 : get_option(*socket, level, name, value, bytes);
}
