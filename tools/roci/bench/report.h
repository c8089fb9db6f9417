// The table of `roci bench` as people and programs read it. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/roci/bench/table.h"

namespace roci::bench {

/// What the figures were measured on.
struct Machine {
  std::string processor;
  int cores = 0;  ///< that the process may use
  std::string kernel;
  std::optional<double> core_round_trip_ns;  ///< of a cache line between two cores; nothing if there is one
  unsigned unsteady = 0;                     ///< measurements during which they were not near to each other
};

struct Report {
  Machine machine;
  std::string version;
  unsigned rounds = 0;
  std::vector<const Row*> rows;
  Results results;
};

/// One line about the yardstick when it is bad or missing; empty when it is good.
std::string yardstick_warning(const Results& results);

/// The table for a terminal, the warning first. `colour`: with escape sequences.
std::string to_text(const Report& report, bool colour);
std::string to_markdown(const Report& report);
nlohmann::ordered_json to_json(const Report& report);

/// `document` with what stands between the two marks replaced by `section`; empty when it has no such marks.
std::string replace_section(std::string_view document, std::string_view section);
inline constexpr std::string_view kSectionBegin = "<!-- roci bench: begin -->";
inline constexpr std::string_view kSectionEnd = "<!-- roci bench: end -->";

}  // namespace roci::bench
