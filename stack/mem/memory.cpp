#include "stack/mem/memory.h"

#include "stack/base/assert.h"

namespace roci {

bool MrTable::insert(Mr* mr, std::uint32_t random) {
  std::uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (regions_.size() > kIndexMask) return false;
    index = static_cast<std::uint32_t>(regions_.size());
    regions_.push_back(nullptr);
  }
  // Never 0: applications take a zero key for "none".
  std::uint32_t key = (random << kIndexBits) | index;
  if (key == 0) key = 1u << kIndexBits;
  mr->key = key;
  regions_[index] = mr;
  return true;
}

void MrTable::erase(const Mr* mr) {
  const std::uint32_t index = mr->key & kIndexMask;
  ROCI_ASSERT(index < regions_.size() && regions_[index] == mr);
  regions_[index] = nullptr;
  free_.push_back(index);
}

}  // namespace roci
