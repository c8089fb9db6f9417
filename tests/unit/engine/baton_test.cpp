#include "stack/engine/baton.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace roci {
namespace {

TEST(Baton, try_lock__fails_while_held) {
  Baton baton;
  EXPECT_TRUE(baton.try_lock());
  EXPECT_FALSE(baton.try_lock());
  baton.unlock();
  EXPECT_TRUE(baton.try_lock());
}

TEST(Baton, lock__spinning_callers_do_not_starve_a_control_call_and_exclude_each_other) {
  Baton baton;
  std::uint64_t value = 0;
  std::atomic<bool> stop{false};
  std::vector<std::thread> pollers;
  for (int i = 0; i < 3; ++i)
    pollers.emplace_back([&] {
      while (!stop.load()) {
        if (!baton.try_lock()) continue;
        ++value;
        baton.unlock();
      }
    });
  for (int i = 0; i < 1000; ++i) {
    baton.lock();
    const std::uint64_t before = value;
    std::this_thread::yield();
    EXPECT_EQ(value, before);
    baton.unlock();
  }
  stop = true;
  for (std::thread& poller : pollers) poller.join();
}

}  // namespace
}  // namespace roci
