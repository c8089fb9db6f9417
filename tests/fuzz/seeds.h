// Inputs to start from: the packets of a real peer, with the sends that would have made a stack wait for them; and
// conversations drawn at random, in which each packet is likely to be a legal one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/golden/captures.h"

namespace roci::fuzz {

struct Seed {
  std::string name;  ///< of the capture, and a number
  std::vector<std::uint8_t> bytes;
};

/// Every frame of the capture is in one of the inputs, whole and in order. An input ends before a new message once it
/// is longer than a few packets of 4096 bytes.
std::vector<Seed> seeds_of(const test::Capture& capture);

/// The same number gives the same input.
Seed random_seed(std::uint64_t number);

}  // namespace roci::fuzz
