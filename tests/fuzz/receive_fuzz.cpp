// The entry point that libFuzzer calls, and that the corpus test calls with files.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/world.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  roci::fuzz::Input input({data, size});
  roci::fuzz::World world(input);
  world.run(input);
  return 0;
}
