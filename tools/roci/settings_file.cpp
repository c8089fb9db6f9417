#include "tools/roci/settings_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "drivers/live/live_config.h"

namespace roci::tool {
namespace {

const Setting* find_setting(std::string_view name) {
  for (const Setting& setting : settings())
    if (setting.name == name) return &setting;
  return nullptr;
}

std::string hint_for_key(std::string_view key) {
  std::vector<std::string_view> names;
  for (const Setting& setting : settings()) names.push_back(setting.name);
  return nearest_hint(key, names);
}

std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return text;
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  return std::nullopt;
}

/// A list becomes the comma-separated form that the environment has.
std::optional<std::string> value_text(const Setting& setting, const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return scalar_text(node);
  if (!setting.is_list) return std::nullopt;
  std::string joined;
  for (const toml::node& element : *array) {
    const auto text = scalar_text(element);
    if (!text) return std::nullopt;
    joined += (joined.empty() ? "" : ",") + *text;
  }
  return joined;
}

}  // namespace

bool read_settings_file(const std::string& path, std::map<std::string_view, FileValue>* values, std::string* error) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) {
    *error = path + ": a folder, not a file";
    return false;
  }
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& failure) {
    const auto line = failure.source().begin.line;  // 0 when the file could not be read
    *error = fmt::format("{}{}: {}", path, line > 0 ? fmt::format(":{}", line) : "", failure.description());
    return false;
  }
  for (const auto& [key, node] : table) {
    const std::string where = fmt::format("{}:{}", path, key.source().begin.line);
    const Setting* setting = find_setting(key.str());
    if (setting == nullptr) {
      *error = fmt::format("{}: unknown key \"{}\"{}", where, key.str(), hint_for_key(key.str()));
      return false;
    }
    const auto text = value_text(*setting, node);
    if (!text) {
      *error = fmt::format("{}: {} takes a string{}", where, key.str(), setting->is_list ? " or a list of them" : "");
      return false;
    }
    (*values)[setting->name] = {*text, where};
  }
  return true;
}

}  // namespace roci::tool
