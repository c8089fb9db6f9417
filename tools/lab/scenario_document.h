// A scenario's file before anything in it has a meaning: tables of keys and values, and the places they come from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "stack/base/units.h"

namespace roci::lab {

/// What a command line changes of a scenario.
struct ScenarioChanges {
  std::string cc;                 ///< of all hosts, whatever the file says; empty: as it says
  std::vector<std::string> sets;  ///< `table.key=value` or `table.index.key=value`, later ones over earlier ones
};

/// `key = value`. The value is as an author would write it between quotes; a list has commas.
struct Entry {
  std::string key;
  std::string text;
  std::string where;  ///< "incast.toml:7" or "--set switch.kmin=5KB"
};

/// A table, or one of a list of tables.
struct Section {
  std::string_view name;
  std::string where;
  std::vector<Entry> entries;  ///< in the order of the file

  /// Null if there is none.
  const Entry* find(std::string_view key) const;
};

struct Document {
  std::string path;
  std::vector<Section> sections;  ///< lists of tables in the order of the file

  /// Of a table that is no list: null if the file has none.
  const Section* one(std::string_view name) const;
  /// Of a list of tables.
  std::vector<const Section*> all(std::string_view name) const;
};

/// Reads the file and applies the changes. What is wrong names file and line, or the change, and what is allowed.
Parsed<Document> read_document(const std::string& path, const ScenarioChanges& changes);

}  // namespace roci::lab
