// Captures read whole, and what another decoder says of their packets.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace roci::test {

using FrameBytes = std::vector<std::byte>;

struct Capture {
  std::string name;
  bool has_ethernet = true;  ///< else the frames start with the IP header
  std::vector<FrameBytes> frames;
};

/// Reads a pcap or pcapng file. Throws std::runtime_error if it cannot be read, is of another link type, or holds a
/// frame that is not whole.
Capture read_capture(const std::filesystem::path& path);

/// The captures beside this file, in the order of their names.
std::vector<std::filesystem::path> golden_captures();

/// The folder of captures that are not ours to hand out, from the environment variable ROCI_PUBLIC_CAPTURES.
std::optional<std::filesystem::path> public_captures_folder();

/// One packet as tshark decodes it: field name to text; the text is empty if the packet does not have the field.
using DecodedFields = std::map<std::string, std::string>;

/// `decode/NAME.tsv` beside the capture at `path`: the fields of its RoCE packets by frame number, from 1. Throws
/// std::runtime_error if there is no such file.
std::map<std::size_t, DecodedFields> read_decode(const std::filesystem::path& path);

}  // namespace roci::test
