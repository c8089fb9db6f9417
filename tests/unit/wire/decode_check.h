// Compares our reading of a packet with another decoder's.
#pragma once

#include <span>

#include "stack/wire/packet.h"
#include "tests/golden/captures.h"

namespace roci::test {

/// Expects each field that `fields` tells of the packet to be what `view` says, and each extension header of the opcode
/// to be told of where `fields` has a column for it.
void expect_decode(const PacketView& view, std::span<const std::byte> frame, const DecodedFields& fields);

/// Expects of every frame in the capture: if the decoder beside it takes it for RoCE, then it parses, its ICRC is
/// right, its headers written again are the same bytes, and the decoders agree; else it does not parse. Returns the
/// number of RoCE packets.
std::size_t expect_capture(const std::filesystem::path& path);

}  // namespace roci::test
