// The functions of rsocket.h: descriptors to sockets, and one call to another.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstring>
#include <map>
#include <mutex>

#include "verbs-shim/rdmacm/ids.h"
#include "verbs-shim/rdmacm/rsocket.h"

namespace roci::shim {
namespace {

/// Sockets by descriptor: that of the id's event channel, which no other file of the process has.
struct Table {
  std::mutex mutex;
  std::map<int, std::shared_ptr<Rsocket>> sockets;
};

Table& table() {
  static auto* made = new Table;
  return *made;
}

int add(std::shared_ptr<Rsocket> socket) {
  const int fd = socket->fd();
  const std::lock_guard lock(table().mutex);
  table().sockets[fd] = std::move(socket);
  return fd;
}

int give_address(const sockaddr& from, sockaddr* to, socklen_t* bytes) {
  if (to == nullptr) return 0;
  if (bytes == nullptr) return fail(EFAULT);
  const socklen_t whole = address_bytes(&from);
  std::memcpy(to, &from, std::min(*bytes, whole));
  *bytes = whole;
  return 0;
}

/// A call on a socket, or EBADF.
template <class Call>
auto with(int fd, Call call) -> decltype(call(std::declval<Rsocket&>())) {
  const std::shared_ptr<Rsocket> socket = find_rsocket(fd);
  if (socket == nullptr) return -1;
  return call(*socket);
}

}  // namespace

std::shared_ptr<Rsocket> find_rsocket(int fd) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().sockets.find(fd);
  if (found != table().sockets.end()) return found->second;
  errno = EBADF;
  return nullptr;
}

}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT int rsocket(int domain, int type, int protocol) {
  if (domain != AF_INET && domain != AF_INET6) return fail(EAFNOSUPPORT);
  // Datagrams would need a UDP port beside the device's, to find out QPs with.
  if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM) return fail(EPROTONOSUPPORT);
  if (protocol != 0 && protocol != IPPROTO_TCP) return fail(EPROTONOSUPPORT);
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0) return -1;
  id->route.addr.src_addr.sa_family = static_cast<sa_family_t>(domain);
  auto socket = std::make_shared<Rsocket>(id);
  if ((type & SOCK_NONBLOCK) != 0) socket->set_nonblocking(true);
  return add(std::move(socket));
}

ROCI_EXPORT int rbind(int fd, const sockaddr* address, socklen_t) {
  return with(fd, [&](Rsocket& socket) { return socket.bind(address); });
}

ROCI_EXPORT int rlisten(int fd, int backlog) {
  return with(fd, [&](Rsocket& socket) { return socket.listen(backlog); });
}

ROCI_EXPORT int raccept(int fd, sockaddr* address, socklen_t* bytes) {
  return with(fd, [&](Rsocket& socket) {
    std::shared_ptr<Rsocket> made = socket.accept();
    if (made == nullptr) return -1;
    give_address(made->id()->route.addr.dst_addr, address, bytes);
    return add(std::move(made));
  });
}

ROCI_EXPORT int rconnect(int fd, const sockaddr* address, socklen_t) {
  return with(fd, [&](Rsocket& socket) { return socket.connect(address); });
}

ROCI_EXPORT int rshutdown(int fd, int how) {
  return with(fd, [&](Rsocket& socket) { return socket.shutdown(how); });
}

ROCI_EXPORT int rclose(int fd) {
  const std::shared_ptr<Rsocket> socket = find_rsocket(fd);
  if (socket == nullptr) return -1;
  socket->close();
  const std::lock_guard lock(table().mutex);
  table().sockets.erase(fd);
  return 0;
}

ROCI_EXPORT ssize_t rrecv(int fd, void* data, std::size_t bytes, int flags) {
  const iovec part{data, bytes};
  return with(fd, [&](Rsocket& socket) { return socket.receive({&part, 1}, flags); });
}

ROCI_EXPORT ssize_t rrecvfrom(int fd, void* data, std::size_t bytes, int flags, sockaddr* from_address,
                              socklen_t* address_length) {
  const ssize_t received = rrecv(fd, data, bytes, flags);
  if (received > 0 && from_address != nullptr) rgetpeername(fd, from_address, address_length);
  return received;
}

ROCI_EXPORT ssize_t rrecvmsg(int fd, msghdr* message, int flags) {
  if (message->msg_controllen != 0) return fail(ENOTSUP);
  return with(fd, [&](Rsocket& socket) { return socket.receive({message->msg_iov, message->msg_iovlen}, flags); });
}

ROCI_EXPORT ssize_t rread(int fd, void* data, std::size_t bytes) { return rrecv(fd, data, bytes, 0); }

ROCI_EXPORT ssize_t rreadv(int fd, const iovec* parts, int count) {
  return with(fd, [&](Rsocket& socket) { return socket.receive({parts, static_cast<std::size_t>(count)}, 0); });
}

ROCI_EXPORT ssize_t rsend(int fd, const void* data, std::size_t bytes, int flags) {
  const iovec part{const_cast<void*>(data), bytes};
  return with(fd, [&](Rsocket& socket) { return socket.send({&part, 1}, flags); });
}

ROCI_EXPORT ssize_t rsendto(int fd, const void* data, std::size_t bytes, int flags, const sockaddr* to, socklen_t) {
  if (to != nullptr) return fail(EISCONN);
  return rsend(fd, data, bytes, flags);
}

ROCI_EXPORT ssize_t rsendmsg(int fd, const msghdr* message, int flags) {
  if (message->msg_controllen != 0) return fail(ENOTSUP);
  return with(fd, [&](Rsocket& socket) { return socket.send({message->msg_iov, message->msg_iovlen}, flags); });
}

ROCI_EXPORT ssize_t rwrite(int fd, const void* data, std::size_t bytes) { return rsend(fd, data, bytes, 0); }

ROCI_EXPORT ssize_t rwritev(int fd, const iovec* parts, int count) {
  return with(fd, [&](Rsocket& socket) { return socket.send({parts, static_cast<std::size_t>(count)}, 0); });
}

ROCI_EXPORT int rgetpeername(int fd, sockaddr* address, socklen_t* bytes) {
  return with(fd, [&](Rsocket& socket) { return give_address(socket.id()->route.addr.dst_addr, address, bytes); });
}

ROCI_EXPORT int rgetsockname(int fd, sockaddr* address, socklen_t* bytes) {
  return with(fd, [&](Rsocket& socket) { return give_address(socket.id()->route.addr.src_addr, address, bytes); });
}

ROCI_EXPORT int rfcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const int value = command == F_SETFL ? va_arg(arguments, int) : 0;
  va_end(arguments);
  return with(fd, [&](Rsocket& socket) {
    if (command == F_GETFL) return socket.nonblocking() ? O_RDWR | O_NONBLOCK : O_RDWR;
    if (command != F_SETFL) return fail(ENOTSUP);
    return socket.set_nonblocking((value & O_NONBLOCK) != 0);
  });
}

ROCI_EXPORT off_t riomap(int fd, void* memory, std::size_t bytes, int protection, int flags, off_t offset) {
  if (flags != 0) return fail(ENOTSUP);
  return with(fd, [&](Rsocket& socket) { return socket.map(memory, bytes, protection, offset); });
}

ROCI_EXPORT int riounmap(int fd, void* memory, std::size_t bytes) {
  return with(fd, [&](Rsocket& socket) { return socket.unmap(memory, bytes); });
}

ROCI_EXPORT std::size_t riowrite(int fd, const void* data, std::size_t bytes, off_t offset, int) {
  const std::shared_ptr<Rsocket> socket = find_rsocket(fd);
  return socket == nullptr ? static_cast<std::size_t>(-1) : socket->write_mapped(data, bytes, offset);
}
