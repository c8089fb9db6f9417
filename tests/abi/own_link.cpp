// The segment of a test program that says nothing else.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace roci::abi {
namespace {

/// A segment that only this process is on.
class OwnLink : public testing::Environment {
 public:
  void SetUp() override { setenv("ROCI_LINK", ("cable:own-link." + std::to_string(getpid())).c_str(), 0); }
};
[[maybe_unused]] const testing::Environment* const own_link = testing::AddGlobalTestEnvironment(new OwnLink);

}  // namespace
}  // namespace roci::abi
