// A grid of changes to a scenario: each value of each key with each of the others.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "stack/base/units.h"
#include "tools/lab/scenario_document.h"

namespace roci::lab {

/// `key` is as in ScenarioChanges::sets, or `cc`, which is that of all hosts.
struct SweptKey {
  std::string key;
  std::vector<std::string> values;
};

/// `key=a,b,c`, or with semicolons where values have commas: `cc=dcqcn,preset=paper;dcqcn,preset=mlx`.
Parsed<SweptKey> parse_swept_key(const std::string& text);

/// One value of each key, in their order.
using Combination = std::vector<std::string>;

/// All of them, the last key's values changing first. Of no keys: one that changes nothing.
std::vector<Combination> combinations(const std::vector<SweptKey>& keys);

/// `changes`, and then what the combination says.
ScenarioChanges changes_of(const std::vector<SweptKey>& keys, const Combination& combination, ScenarioChanges changes);

/// `out.json` becomes `out.007.json`, with as many digits as the last of `count` needs.
std::string numbered_path(const std::string& path, std::size_t number, std::size_t count);

}  // namespace roci::lab
