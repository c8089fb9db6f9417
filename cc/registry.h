// Congestion control by name: `dcqcn,preset=mlx,rpg_time_reset=300us`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cc/congestion_control.h"
#include "cc/options.h"
#include "stack/base/units.h"

namespace roci {

/// `NAME[,key=value]...`. Of `none` the spec has no algorithm and answers no marks. What is wrong names the nearest
/// algorithm or key that there is, or the units that a value may have.
Parsed<CcSpec> parse_cc(std::string_view text);

/// All algorithms with a name, `none` first.
std::span<const CcAlgorithm* const> cc_algorithms();

/// All algorithms and keys with their defaults, for `--help`: lines that end in '\n'.
std::string cc_help();

}  // namespace roci
