// How a port orders, marks and pauses what it sends. Settings have the names that switches and NICs give them.
#pragma once

#include <array>
#include <cstdint>

#include "stack/base/types.h"

namespace roci::egress {

/// Priorities of IEEE 802.1Q, and as many traffic classes.
inline constexpr unsigned kPriorities = 8;

/// What a packet's priority is read from.
enum class Trust : std::uint8_t {
  kDscp,  ///< DSCP / 8
  kPcp,   ///< the PCP of the VLAN tag, which is the service level of the address vector
};

struct Settings {
  std::uint8_t pfc = 0;  ///< bit n: priority n is lossless: PFC is honoured, and sent when the receive side backs up
  Trust trust = Trust::kDscp;
  std::array<std::uint8_t, kPriorities> prio_tc{0, 1, 2, 3, 4, 5, 6, 7};  ///< priority to traffic class
  std::array<std::uint8_t, kPriorities>
      tc_bw{};  ///< percent of what strict classes leave (ETS); 0: the class is strict
  std::uint8_t cnp_dscp = 48;
  std::uint8_t dscp = 26;  ///< of a QP whose program chose none, if `marks_data`
  bool marks_data = false;
  /// A flow that could not be served in time, because nobody turned the worker, may make up for this much.
  Duration catch_up{};

  constexpr std::uint8_t priority_of_dscp(std::uint8_t value) const {
    return static_cast<std::uint8_t>(value >> 3 & 7);
  }
};

}  // namespace roci::egress
