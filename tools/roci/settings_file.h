// Settings in a TOML file: `key = value` with the keys of `roci run`'s options.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace roci::tool {

/// A setting's value as the option would be given it, and where it stands ("roci.toml:3").
struct FileValue {
  std::string text;
  std::string where;
};

/// By the names of settings(). False with one line in `error` that names the file, the line and the nearest valid key
/// when the file cannot be read or is not TOML, a key is unknown or a value is of the wrong type.
bool read_settings_file(const std::string& path, std::map<std::string_view, FileValue>* values, std::string* error);

}  // namespace roci::tool
