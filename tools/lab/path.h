// What a path is like when nobody else uses it.
#pragma once

#include <cstdint>

#include "drivers/fabric/topology.h"
#include "stack/base/types.h"

namespace roci::lab {

/// Of a flow of RDMA WRITEs, alone: from the post to the completion. `message_bytes`: a longer flow is a row of such.
/// Exact where all links of the path have one rate.
Duration ideal_fct(const fabric::Topology& topology, std::uint32_t source, std::uint32_t destination,
                   std::uint64_t bytes, std::uint32_t mtu_bytes, std::uint32_t message_bytes);

/// Of one full packet and its acknowledgement.
Duration base_rtt(const fabric::Topology& topology, std::uint32_t source, std::uint32_t destination,
                  std::uint32_t mtu_bytes);

}  // namespace roci::lab
