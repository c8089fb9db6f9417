// What a path is to the egress scheduler: the DSCP of what is sent on it, and its priority.
#pragma once

#include <cstdint>

#include "stack/egress/settings.h"
#include "stack/qp/attributes.h"

namespace roci {

/// The path as its packets are marked: those of a program that asked for no DSCP get the configured one.
inline AddressVector marked(const AddressVector& av, const egress::Settings& settings) {
  AddressVector used = av;
  if (settings.marks_data && av.traffic_class >> 2 == 0)
    used.traffic_class = static_cast<std::uint8_t>(settings.dscp << 2 | (av.traffic_class & 3));
  return used;
}

/// Of a path as marked() gave it.
inline std::uint8_t priority_of(const AddressVector& used, const egress::Settings& settings) {
  return settings.trust == egress::Trust::kPcp ? used.sl & 7 : settings.priority_of_dscp(used.traffic_class >> 2);
}

}  // namespace roci
