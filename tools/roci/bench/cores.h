// Where the contestants of `roci bench` that drive a link by themselves run.
#pragma once

#include <sched.h>

namespace roci::bench {

/// Keeps the calling thread on the core of that number among those that it may use, if there are two or more.
inline void put_on_core(unsigned number) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || number-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

}  // namespace roci::bench
