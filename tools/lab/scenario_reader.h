// Reads a scenario from its TOML file. docs/lab.md describes the format.
#pragma once

#include <string>

#include "stack/base/units.h"
#include "tools/lab/scenario.h"
#include "tools/lab/scenario_document.h"

namespace roci::lab {

/// Every value of the scenario is then within its range, and what it refers to is there. What is wrong is one line that
/// names file and line, or the change, and what is allowed. Files that the scenario names lie relative to its folder.
Parsed<Scenario> read_scenario(const std::string& path, const ScenarioChanges& changes = {});

}  // namespace roci::lab
