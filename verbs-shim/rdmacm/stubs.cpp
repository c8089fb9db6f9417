// rsockets: the symbols are there, so that programs which share code with them start. Each function fails with ENOSYS.
#include <cerrno>

#define ROCI_EXPORT extern "C" __attribute__((visibility("default")))

// clang-format off
#define ROCI_RSOCKET_STUBS(X) \
  X(raccept) \
  X(rbind) \
  X(rclose) \
  X(rconnect) \
  X(rfcntl) \
  X(rgetpeername) \
  X(rgetsockname) \
  X(rgetsockopt) \
  X(riomap) \
  X(riounmap) \
  X(riowrite) \
  X(rlisten) \
  X(rpoll) \
  X(rread) \
  X(rreadv) \
  X(rrecv) \
  X(rrecvfrom) \
  X(rrecvmsg) \
  X(rselect) \
  X(rsend) \
  X(rsendmsg) \
  X(rsendto) \
  X(rsetsockopt) \
  X(rshutdown) \
  X(rsocket) \
  X(rwrite) \
  X(rwritev)
// clang-format on

/// Wide enough for int, ssize_t and off_t alike.
#define ROCI_RSOCKET_STUB(name) \
  ROCI_EXPORT long name() { return errno = ENOSYS, -1; }
ROCI_RSOCKET_STUBS(ROCI_RSOCKET_STUB)
#undef ROCI_RSOCKET_STUB
