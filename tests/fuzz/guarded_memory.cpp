#include "tests/fuzz/guarded_memory.h"

#include <sys/mman.h>

#include <cstring>

#include "tests/fuzz/require.h"

namespace roci::fuzz {
namespace {

constexpr std::size_t kPageBytes = 4096;

}  // namespace

GuardedPages::GuardedPages(std::size_t bytes) {
  void* mapped = mmap(nullptr, bytes + 2 * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(mapped != MAP_FAILED, "memory can be mapped");
  std::byte* start = static_cast<std::byte*>(mapped) + kPageBytes;
  require(mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0, "memory can be protected");
  bytes_ = {start, bytes};
}

GuardedPages::~GuardedPages() { munmap(bytes_.data() - kPageBytes, bytes_.size() + 2 * kPageBytes); }

GuardedMemory::GuardedMemory()
    : areas_{GuardedPages(kAreaBytes), GuardedPages(kAreaBytes), GuardedPages(kAreaBytes), GuardedPages(kAreaBytes)} {
  for (auto& known : known_)
    for (std::size_t i = 0; i < kAreaBytes; ++i) known.push_back(static_cast<std::byte>(i * 7 + (i >> 8)));
  for (auto& allowed : allowed_) allowed.resize(kAreaBytes);
}

void GuardedMemory::reset() {
  for (std::size_t area = 0; area < kAreas; ++area) {
    for (std::size_t i = 0; i < kAreaBytes; ++i) known_[area][i] = static_cast<std::byte>(i * 7 + (i >> 8));
    std::memcpy(areas_[area].bytes().data(), known_[area].data(), kAreaBytes);
  }
  forbid_all();
}

void GuardedMemory::check() {
  for (std::size_t area = 0; area < kAreas; ++area) {
    const std::byte* now = areas_[area].bytes().data();
    if (std::memcmp(now, known_[area].data(), kAreaBytes) == 0) continue;
    for (std::size_t i = 0; i < kAreaBytes; ++i)
      require(now[i] == known_[area][i] || allowed_[area][i] != std::byte{0},
              "memory is written only where a key or a work request allows it");
  }
}

void GuardedMemory::forbid_all() {
  for (std::size_t area = 0; area < kAreas; ++area) {
    std::memcpy(known_[area].data(), areas_[area].bytes().data(), kAreaBytes);
    std::memset(allowed_[area].data(), 0, kAreaBytes);
  }
}

void GuardedMemory::allow(const std::byte* from, std::size_t count) {
  for (std::size_t area = 0; area < kAreas; ++area) {
    const std::byte* start = areas_[area].bytes().data();
    if (from >= start && from < start + kAreaBytes) std::memset(allowed_[area].data() + (from - start), 0xff, count);
  }
}

}  // namespace roci::fuzz
