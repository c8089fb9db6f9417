// End-to-end flow control (IBTA 9.7.7.2): how far the receives that the responder has posted let the requester go.
#pragma once

#include <cstdint>

#include "stack/wire/aeth.h"

namespace roci {

/// Messages are numbered by SSN from 1 on, 24 bits. An ACK says how many messages the responder has completed (MSN)
/// and for how many more it holds receives (credits). Messages that take a receive may start up to their sum, and one
/// beyond: its answer brings news. A responder without a receive queue of its own says that there is no limit.
/// Owner: worker.
class SendCredits {
 public:
  void reset() { *this = {}; }

  /// Of an ACK, or of a response to a READ or an atomic. Credits once given are not taken back.
  void update(Aeth aeth) {
    const std::uint8_t code = aeth_value(aeth.syndrome);
    is_unlimited_ = code == kNoCreditLimit;
    const std::uint32_t limit = aeth.msn + credits(code);
    if (!is_unlimited_ && distance(limit, limit_ssn_) > 0) limit_ssn_ = limit;
  }
  bool allow(std::uint32_t ssn) const { return is_unlimited_ || distance(ssn, limit_ssn_) <= 1; }

 private:
  /// From `b` to `a`, in 24-bit sequence space.
  static std::int32_t distance(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>((a - b) << 8) >> 8;
  }

  std::uint32_t limit_ssn_ = 0;
  bool is_unlimited_ = false;
};

}  // namespace roci
