// What a timed object carries for the worker's heap of deadlines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/base/types.h"

namespace roci {

/// `at` is when the heap will look at the object; kNever when it is not in the heap.
struct DeadlineHook {
  static constexpr std::size_t kNotQueued = SIZE_MAX;
  Instant at = kNever;
  std::size_t index = kNotQueued;
};

}  // namespace roci
