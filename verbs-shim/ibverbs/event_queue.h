// Events for a client, with a descriptor that is readable exactly while one is queued.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace roci::shim {

/// The descriptor is the client's to poll and to make non-blocking: take() blocks if and only if it does.
template <class Event>
class EventQueue {
 public:
  EventQueue() : fd_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}
  ~EventQueue() {
    if (fd_ >= 0) close(fd_);
    pthread_mutex_destroy(&mutex_);
  }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  int fd() const { return fd_; }

  void push(const Event& event) {
    const std::uint64_t one = 1;
    pthread_mutex_lock(&mutex_);
    events_.push_back(event);
    // Under the lock, so that a purge finds the token of what it forgets.
    static_cast<void>(write(fd_, &one, sizeof one));
    pthread_mutex_unlock(&mutex_);
  }

  /// False with errno when there is none and the descriptor is non-blocking, or on a signal. `delivered` is called with
  /// the event before anybody else can purge it.
  template <class Delivered>
  bool take(Event* event, Delivered delivered) {
    for (;;) {
      std::uint64_t token = 0;
      if (read(fd_, &token, sizeof token) != sizeof token) return false;
      pthread_mutex_lock(&mutex_);
      // The event of this token may have been purged since.
      const bool found = !events_.empty();
      if (found) {
        *event = events_.front();
        events_.pop_front();
        delivered(*event);
      }
      pthread_mutex_unlock(&mutex_);
      if (found) return true;
    }
  }

  /// Forgets the events for which `is_about` holds: their object is being destroyed.
  template <class Predicate>
  void purge(Predicate is_about) {
    pthread_mutex_lock(&mutex_);
    const std::size_t purged = std::erase_if(events_, is_about);
    for (std::size_t i = 0; i < purged; ++i) drop_token();
    pthread_mutex_unlock(&mutex_);
  }

 private:
  /// Without waiting, whatever the client made of the descriptor: a getter may have been faster.
  void drop_token() {
    std::uint64_t token = 0;
    const iovec into{.iov_base = &token, .iov_len = sizeof token};
    if (preadv2(fd_, &into, 1, -1, RWF_NOWAIT) > 0 || errno == EAGAIN) return;
    // Linux before 5.12 knows no such read of an eventfd.
    pollfd readable{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, 0) == 1) static_cast<void>(read(fd_, &token, sizeof token));
  }

  int fd_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::deque<Event> events_;
};

}  // namespace roci::shim
