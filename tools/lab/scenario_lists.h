// Lists that a scenario keeps in files of their own: comma-separated values under a header; `#` begins a comment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/units.h"
#include "tools/lab/scenario.h"

namespace roci::lab {

/// Rows `bytes,probability`: sizes that do not fall, probabilities that rise up to 1. What is wrong names file and
/// line.
Parsed<std::vector<CdfPoint>> read_cdf(const std::string& path);
/// Rows `src,dst,bytes,start_ns` of flows between different ones of `hosts` hosts.
Parsed<std::vector<ListedFlow>> read_flows(const std::string& path, std::uint32_t hosts);

}  // namespace roci::lab
