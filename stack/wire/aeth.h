// ACK Extended Transport Header (IBTA 9.3.1, 9.7.5.1): acknowledgement, credits, RNR NAK timers and NAK codes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "stack/base/bytes.h"
#include "stack/base/types.h"

namespace roci {

struct Aeth {
  static constexpr std::size_t kSize = 4;

  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  ///< message sequence number, 24 bits

  static Aeth read(const std::byte* p) { return {std::to_integer<std::uint8_t>(p[0]), load_be24(p + 1)}; }
  void write(std::byte* p) const {
    p[0] = std::byte{syndrome};
    store_be24(p + 1, msn);
  }
  bool operator==(const Aeth&) const = default;
};

/// Bits 6 and 5 of the syndrome (IBTA table 43).
enum class AethKind : std::uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };

/// Low bits of a NAK's syndrome (IBTA table 46).
enum class NakCode : std::uint8_t {
  kPsnSequenceError = 0,
  kInvalidRequest = 1,
  kRemoteAccessError = 2,
  kRemoteOperationalError = 3,
  kInvalidRdRequest = 4,
};

/// Credit code of an ACK that tells of no limit (IBTA table 44).
inline constexpr std::uint8_t kNoCreditLimit = 31;

constexpr AethKind aeth_kind(std::uint8_t syndrome) { return static_cast<AethKind>(syndrome >> 5 & 3); }
constexpr std::uint8_t aeth_value(std::uint8_t syndrome) { return syndrome & 0x1f; }
/// True for a syndrome that says nothing (IBTA tables 43 and 46).
constexpr bool is_reserved_syndrome(std::uint8_t syndrome) {
  const AethKind kind = aeth_kind(syndrome);
  return kind == AethKind::kReserved ||
         (kind == AethKind::kNak && aeth_value(syndrome) > static_cast<std::uint8_t>(NakCode::kInvalidRdRequest));
}
constexpr std::uint8_t ack_syndrome(std::uint8_t credit_code) { return credit_code; }
constexpr std::uint8_t rnr_nak_syndrome(std::uint8_t timer_code) {
  return static_cast<std::uint8_t>(1u << 5 | timer_code);
}
constexpr std::uint8_t nak_syndrome(NakCode code) {
  return static_cast<std::uint8_t>(3u << 5 | static_cast<unsigned>(code));
}

/// Receive credits that an ACK's code stands for (IBTA table 44): the number of messages that may still come.
constexpr std::uint32_t credits(std::uint8_t code) {
  constexpr std::array<std::uint16_t, 31> kCredits{0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                                                   48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                                                   2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
  return code < kCredits.size() ? kCredits[code] : UINT32_MAX;
}

/// The code of the most credits that are no more than `count`.
constexpr std::uint8_t credit_code(std::uint32_t count) {
  if (count < 2) return static_cast<std::uint8_t>(count);
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(count)) - 1;
  return static_cast<std::uint8_t>(std::min(2 * exponent + (count >> (exponent - 1) & 1), 30u));
}

/// How long the requester waits after an RNR NAK with `code` (IBTA table 45).
constexpr Duration rnr_timer(std::uint8_t code) {
  constexpr std::array<std::uint32_t, 32> kMicroseconds{
      655'360, 10,     20,     30,     40,     60,      80,      120,     160,     240,    320,
      480,     640,    960,    1280,   1920,   2560,    3840,    5120,    7680,    10'240, 15'360,
      20'480,  30'720, 40'960, 61'440, 81'920, 122'880, 163'840, 245'760, 327'680, 491'520};
  return microseconds(kMicroseconds[code & 0x1f]);
}

}  // namespace roci
