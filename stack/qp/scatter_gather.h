// Moving payload between packets and the application's memory through a list of scatter/gather elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "stack/mem/memory.h"
#include "stack/queues/work.h"

namespace roci {

/// A place in a list of elements. Each step checks the L_Key anew: a region may be gone since the WQE was posted.
class SgeCursor {
 public:
  SgeCursor() = default;

  /// Moves to `offset` bytes from the start of the list.
  void seek(const Sge* sges, std::uint32_t count, std::uint64_t offset) {
    index_ = 0;
    while (index_ < count && offset >= sges[index_].length) offset -= sges[index_++].length;
    offset_ = static_cast<std::uint32_t>(offset);
  }

  /// Copies `bytes` from the elements to `out`. False: a key, range or page is bad.
  bool gather(const KeyTable& keys, const Pd* pd, const Sge* sges, std::uint32_t count, std::byte* out,
              std::uint32_t bytes) {
    return walk(keys, pd, sges, count, 0, bytes, [&keys, &out](std::byte* memory, std::uint32_t n) {
      const bool ok = keys.copy_payload(out, memory, n);
      out += n;
      return ok;
    });
  }

  /// Copies `bytes` from `in` to the elements. False: a key, range, right or page is bad, or the list is too short.
  bool scatter(const KeyTable& keys, const Pd* pd, const Sge* sges, std::uint32_t count, const std::byte* in,
               std::uint32_t bytes) {
    return walk(keys, pd, sges, count, kAccessLocalWrite, bytes, [&keys, &in](std::byte* memory, std::uint32_t n) {
      const bool ok = keys.copy_payload(memory, in, n);
      in += n;
      return ok;
    });
  }

 private:
  template <class Move>
  bool walk(const KeyTable& keys, const Pd* pd, const Sge* sges, std::uint32_t count, std::uint32_t access,
            std::uint32_t bytes, Move move) {
    while (bytes > 0) {
      if (index_ >= count) return false;
      const Sge& sge = sges[index_];
      const std::uint32_t n = std::min(bytes, sge.length - offset_);
      if (n > 0) {
        std::byte* memory = keys.check_local(sge.lkey.value, pd, sge.addr + offset_, n, access);
        if (memory == nullptr || !move(memory, n)) return false;
      }
      bytes -= n;
      offset_ += n;
      if (offset_ == sge.length) {
        ++index_;
        offset_ = 0;
      }
    }
    return true;
  }

  std::uint32_t index_ = 0;
  std::uint32_t offset_ = 0;
};

}  // namespace roci
