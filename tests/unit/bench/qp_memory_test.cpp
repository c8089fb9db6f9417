#include "tools/roci/bench/qp_memory.h"

#include <gtest/gtest.h>

#include "stack/qp/qp.h"

namespace roci::bench {
namespace {

TEST(QpMemory, AConnectedQpTakesAtMost4KiBBesidesItsQueues) {
  const double bytes = measure_qp_memory();
  if (bytes == 0) GTEST_SKIP() << "the allocator of a sanitizer does not tell what it has given away";
  EXPECT_GT(bytes, sizeof(Qp)) << "the QP itself is part of it";
  EXPECT_LE(bytes, 4096);
}

}  // namespace
}  // namespace roci::bench
