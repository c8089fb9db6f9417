// Protection domains and memory regions: keys to memory, and access checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "stack/base/types.h"

namespace roci {

/// Protection domain (IBTA 10.2.3). Owner: control, under the baton.
struct Pd {
  std::uint32_t handle = 0;
  std::uint32_t users = 0;  ///< MRs, QPs, SRQs and AHs in it
};

/// Memory region (IBTA 10.6). Immutable once registered; read by the worker.
struct Mr {
  Pd* pd = nullptr;
  std::byte* base = nullptr;    ///< first registered byte in this process
  std::uint64_t iova = 0;       ///< the address by which keys speak of `base`
  std::uint64_t length = 0;     ///< bytes
  std::uint32_t access = 0;     ///< AccessFlag bits
  std::uint32_t key = 0;        ///< L_Key and R_Key alike
};

}  // namespace roci
