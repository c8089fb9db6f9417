// Waiting for several descriptors, rsockets and others alike.
#include <cerrno>
#include <chrono>
#include <optional>
#include <vector>

#include "verbs-shim/rdmacm/ids.h"
#include "verbs-shim/rdmacm/rsocket.h"

namespace roci::shim {
namespace {

using Clock = std::chrono::steady_clock;

/// Descriptors as poll() takes them, and the sockets that some of them stand for.
class Polled {
 public:
  explicit Polled(std::span<pollfd> fds) : fds_(fds), sockets_(fds.size()) {
    for (std::size_t i = 0; i < fds.size(); ++i)
      if (fds[i].fd >= 0) sockets_[i] = find_rsocket(fds[i].fd);
  }

  /// Sleeps until something may have changed. False on an error.
  bool sleep(int timeout_ms) {
    std::vector<pollfd> all;
    bool nothing_yet = true;
    for (std::size_t i = 0; i < fds_.size(); ++i)
      if (sockets_[i] != nullptr) nothing_yet = sockets_[i]->watch(fds_[i].events, &all) && nothing_yet;
    const std::size_t own = all.size();
    for (std::size_t i = 0; i < fds_.size(); ++i)
      if (sockets_[i] == nullptr) all.push_back(fds_[i]);
    if (poll(all.data(), all.size(), nothing_yet ? timeout_ms : 0) < 0) return false;
    others_ready_ = 0;
    std::size_t next = own;
    for (std::size_t i = 0; i < fds_.size(); ++i) {
      if (sockets_[i] != nullptr) continue;
      fds_[i].revents = all[next++].revents;
      others_ready_ += fds_[i].revents != 0;
    }
    return true;
  }

  /// The number of descriptors that are ready: of those that are no sockets, when sleep() ended.
  int look() {
    int ready = others_ready_;
    for (std::size_t i = 0; i < fds_.size(); ++i) {
      if (sockets_[i] == nullptr) continue;
      sockets_[i]->progress();
      fds_[i].revents = sockets_[i]->ready(fds_[i].events);
      ready += fds_[i].revents != 0;
    }
    return ready;
  }

 private:
  std::span<pollfd> fds_;
  std::vector<std::shared_ptr<Rsocket>> sockets_;
  int others_ready_ = 0;
};

int poll_all(std::span<pollfd> fds, int timeout_ms) {
  Polled polled(fds);
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  if (!polled.sleep(0)) return -1;
  int ready = polled.look();
  while (ready == 0) {
    int left_ms = -1;
    if (timeout_ms >= 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left <= 0) return 0;
      left_ms = static_cast<int>(left);
    }
    if (!polled.sleep(left_ms)) return -1;
    ready = polled.look();
  }
  return ready;
}

}  // namespace
}  // namespace roci::shim

using namespace roci::shim;

ROCI_EXPORT int rpoll(pollfd* fds, nfds_t count, int timeout_ms) { return poll_all({fds, count}, timeout_ms); }

ROCI_EXPORT int rselect(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, timeval* timeout) {
  const auto wants = [](const fd_set* set, int fd) { return set != nullptr && FD_ISSET(fd, set); };
  std::vector<pollfd> fds;
  for (int fd = 0; fd < count; ++fd) {
    short events = 0;
    if (wants(readable, fd)) events |= POLLIN;
    if (wants(writable, fd)) events |= POLLOUT;
    if (wants(exceptional, fd)) events |= POLLPRI;
    if (events != 0) fds.push_back({fd, events, 0});
  }
  const int timeout_ms =
      timeout == nullptr ? -1 : static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
  if (poll_all(fds, timeout_ms) < 0) return -1;
  for (fd_set* set : {readable, writable, exceptional})
    if (set != nullptr) FD_ZERO(set);
  int ready = 0;
  for (const pollfd& fd : fds) {
    const auto tell = [&](fd_set* set, short asked, short told) {
      if (set == nullptr || (fd.events & asked) == 0 || (fd.revents & told) == 0) return;
      FD_SET(fd.fd, set);
      ++ready;
    };
    tell(readable, POLLIN, POLLIN | POLLHUP | POLLERR);
    tell(writable, POLLOUT, POLLOUT | POLLERR);
    tell(exceptional, POLLPRI, POLLPRI);
  }
  return ready;
}
