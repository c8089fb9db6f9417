// How a fuzz run fails: whatever runs it sees an abort, after a line that says which promise was broken.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace roci::fuzz {

[[noreturn]] inline void broken(const char* promise) {
  std::fprintf(stderr, "fuzz: broken: %s\n", promise);
  std::abort();
}

/// `promise` holds, or the run ends here.
inline void require(bool holds, const char* promise) {
  if (!holds) [[unlikely]]
    broken(promise);
}

}  // namespace roci::fuzz
