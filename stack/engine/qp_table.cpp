#include "stack/engine/qp_table.h"

#include "stack/base/assert.h"

namespace roci {

Qpn QpTable::pick(std::uint64_t random) const {
  // The last index is that of the multicast QPN in the last block.
  constexpr std::uint32_t kEnd = kIndexCount - 1;
  constexpr std::uint32_t kCount = kEnd - kFirstIndex;
  ROCI_ASSERT(size_ < kCount);
  std::uint32_t index = kFirstIndex + static_cast<std::uint32_t>(random % kCount);
  while (find(Qpn{base_ | index}) != nullptr) index = index + 1 == kEnd ? kFirstIndex : index + 1;
  return Qpn{base_ | index};
}

void QpTable::insert(Qpn qpn, Qp* qp) {
  const std::uint32_t index = qpn.value ^ base_;
  ROCI_ASSERT(index < kIndexCount && find(qpn) == nullptr);
  auto& page = pages_[index >> kPageBits];
  if (page == nullptr) page = std::make_unique<Page>();
  (*page)[index & kPageMask] = qp;
  ++size_;
}

void QpTable::erase(Qpn qpn) {
  const std::uint32_t index = qpn.value ^ base_;
  ROCI_ASSERT(find(qpn) != nullptr);
  (*pages_[index >> kPageBits])[index & kPageMask] = nullptr;
  --size_;
}

}  // namespace roci
