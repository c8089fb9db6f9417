// What a connected QP needs beyond its own queues.
#pragma once

namespace roci::bench {

/// Bytes that the stack allocates for a connected QP with 16 READ resources, without the WQEs of its queues.
double measure_qp_memory();

}  // namespace roci::bench
