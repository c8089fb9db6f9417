// Protection domains and memory regions: keys to memory, and access checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stack/base/types.h"

namespace roci {

/// Values of ibv_access_flags.
enum AccessFlag : std::uint32_t {
  kAccessLocalWrite = 1,
  kAccessRemoteWrite = 2,
  kAccessRemoteRead = 4,
  kAccessRemoteAtomic = 8,
  kAccessMwBind = 16,
  kAccessZeroBased = 32,
};

/// Protection domain (IBTA 10.2.3). Owner: control, under the baton.
struct Pd {
  std::uint32_t handle = 0;
  std::uint32_t users = 0;  ///< MRs, QPs, SRQs and AHs in it
};

/// Memory region (IBTA 10.6). Changed only under the baton; read by the worker.
struct Mr {
  Pd* pd = nullptr;
  std::byte* base = nullptr;  ///< first registered byte in this process
  std::uint64_t iova = 0;     ///< the address by which keys speak of `base`
  std::uint64_t length = 0;   ///< bytes
  std::uint32_t access = 0;   ///< AccessFlag bits
  std::uint32_t key = 0;      ///< L_Key and R_Key alike

  /// The memory behind [va, va + bytes), or null if that is not all within the region.
  std::byte* translate(std::uint64_t va, std::uint64_t bytes) const {
    const std::uint64_t offset = va - iova;
    if (va < iova || offset > length || bytes > length - offset) return nullptr;
    return base + offset;
  }
};

/// Keys to regions. A key is an index below and random bits above, so that a stale or guessed key misses.
/// Owner: control and worker, both under the baton.
class MrTable {
 public:
  static constexpr std::uint32_t kIndexBits = 16;
  static constexpr std::uint32_t kIndexMask = (1u << kIndexBits) - 1;

  /// Gives `mr` a key made of a free index and `random`; false when the table is full.
  bool insert(Mr* mr, std::uint32_t random);
  void erase(const Mr* mr);

  const Mr* find(std::uint32_t key) const {
    const std::uint32_t index = key & kIndexMask;
    if (index >= regions_.size()) return nullptr;
    const Mr* mr = regions_[index];
    return mr != nullptr && mr->key == key ? mr : nullptr;
  }

  /// The memory behind [va, va + bytes) if `key` opens it to a QP of `pd` with all of the rights `access`; else null
  /// (IBTA 10.6.7.2, C10-57).
  std::byte* check(std::uint32_t key, const Pd* pd, std::uint64_t va, std::uint64_t bytes, std::uint32_t access) const {
    const Mr* mr = find(key);
    if (mr == nullptr || mr->pd != pd || (mr->access & access) != access) return nullptr;
    return mr->translate(va, bytes);
  }

  std::size_t size() const { return regions_.size() - free_.size(); }

 private:
  std::vector<Mr*> regions_;
  std::vector<std::uint32_t> free_;
};

}  // namespace roci
