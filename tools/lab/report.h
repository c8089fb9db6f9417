// What came out of an experiment, for people and programs. The same result gives the same bytes.
#pragma once

#include <string>
#include <string_view>

#include "tools/lab/result.h"
#include "tools/lab/scenario.h"

namespace roci::lab {

/// Tables, of lines that end in '\n'.
std::string summary_text(const Scenario& scenario, const Result& result);

/// An object; docs/lab.md describes its keys. `with_wall`: with the only thing that differs from run to run.
std::string result_json(const Scenario& scenario, const Result& result, std::string_view version, bool with_wall);

/// The time series: rows of a time, what was measured, of whom, and the value. Flows that do not run have no rows.
std::string time_series_csv(const Result& result);

/// What the rows of a table of several results have: the names, and the values of one result.
std::string sweep_header(std::string_view keys);
std::string sweep_row(std::string_view values, const Scenario& scenario, const Result& result);

}  // namespace roci::lab
