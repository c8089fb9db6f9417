// Random numbers for keys, QPNs and first PSNs. The driver supplies them: a CSPRNG live, the seed in simulation.
#pragma once

#include <cstdint>

namespace roci {

class Entropy {
 public:
  virtual ~Entropy() = default;
  virtual std::uint64_t next() = 0;
};

}  // namespace roci
