// The seed of a property test: another one each time, printed when the test fails, and given back by ROCI_TEST_SEED.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace roci::test {

/// Use with SCOPED_TRACE(seed_note(seed)).
inline std::uint64_t fresh_seed() {
  const char* given = std::getenv("ROCI_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
}

inline std::string seed_note(std::uint64_t seed) { return "run again with ROCI_TEST_SEED=" + std::to_string(seed); }

}  // namespace roci::test
