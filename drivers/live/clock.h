// The clock of live drivers: CLOCK_MONOTONIC, which all processes of a machine share.
#pragma once

#include <ctime>

#include "stack/base/types.h"

namespace roci {

inline Instant live_now() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return {(std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec) * 1000};
}

}  // namespace roci
