#include "drivers/fabric/large_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "stack/base/assert.h"

namespace roci::fabric {
namespace {

constexpr std::size_t kHugePageBytes = 2 << 20;

}  // namespace

LargePages::LargePages(std::size_t bytes) {
  const std::size_t mapped_bytes = bytes + kHugePageBytes;
  void* mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ROCI_ASSERT(mapped != MAP_FAILED);
  mapped_ = {static_cast<std::byte*>(mapped), mapped_bytes};
  const std::size_t over = reinterpret_cast<std::uintptr_t>(mapped) % kHugePageBytes;
  bytes_ = mapped_.subspan(over == 0 ? 0 : kHugePageBytes - over, bytes);
  // A wish: without huge pages all works as well.
  static_cast<void>(madvise(bytes_.data(), bytes_.size(), MADV_HUGEPAGE));
}

LargePages::~LargePages() {
  if (!mapped_.empty()) munmap(mapped_.data(), mapped_.size());
}

LargePages::LargePages(LargePages&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), mapped_(std::exchange(other.mapped_, {})) {}

}  // namespace roci::fabric
