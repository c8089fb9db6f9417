// Assertions for bugs in our own code. Never for bytes from the network or arguments of a caller.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace roci::detail {
[[noreturn]] inline void assertion_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "rocinante: assertion failed: %s (%s:%d)\n", what, file, line);
  std::abort();
}
}  // namespace roci::detail

/// Kept in release builds; for set-up, tear-down and rare paths.
#define ROCI_ASSERT(condition)                                          \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::roci::detail::assertion_failed(#condition, __FILE__, __LINE__); \
  } while (false)

/// Debug builds only; for the path of a packet.
#ifdef NDEBUG
#define ROCI_DEBUG_ASSERT(condition) static_cast<void>(0)
#else
#define ROCI_DEBUG_ASSERT(condition) ROCI_ASSERT(condition)
#endif
