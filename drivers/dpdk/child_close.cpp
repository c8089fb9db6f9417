#include "drivers/dpdk/child_close.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace roci::dpdk {
namespace {

constexpr int kFree = -1;

/// Read in a forked child, where nothing but a plain look is safe.
struct Descriptors {
  std::array<std::atomic<int>, 128> fds;
  Descriptors() {
    for (auto& fd : fds) fd.store(kFree);
  }
  bool replace(int from, int to) {
    for (auto& fd : fds) {
      int expected = from;
      if (fd.compare_exchange_strong(expected, to)) return true;
    }
    return false;
  }
};
Descriptors descriptors;

void close_all() {
  for (auto& fd : descriptors.fds)
    if (const int open = fd.exchange(kFree); open != kFree) close(open);
}

}  // namespace

void close_in_child(int fd) {
  static const int registered = pthread_atfork(nullptr, nullptr, close_all);
  if (registered == 0) descriptors.replace(kFree, fd);
}

void unmap_in_child(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return;
  const std::string name = "socket:[" + std::to_string(status.st_ino) + "]";
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(name)) continue;
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2)
      madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTFORK);
  }
}

void forget_in_child(int fd) { descriptors.replace(fd, kFree); }

void close_for_good(int fd) {
  if (fd < 0) return;
  forget_in_child(fd);
  close(fd);
}

}  // namespace roci::dpdk
