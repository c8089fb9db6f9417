#include "tools/lab/sweep.h"

#include <fmt/format.h>

#include <filesystem>

namespace roci::lab {
namespace {

constexpr const char* kCcKey = "cc";

}  // namespace

Parsed<SweptKey> parse_swept_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return {{}, fmt::format("--sweep {}: not of the form table.key=value,value...", text)};
  SweptKey swept{.key = text.substr(0, equals), .values = {}};
  const char separator = text.find(';') == std::string::npos ? ',' : ';';
  for (std::size_t begin = equals + 1;;) {
    const std::size_t end = text.find(separator, begin);
    swept.values.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    if (swept.values.back().empty()) return {{}, fmt::format("--sweep {}: an empty value", text)};
    if (end == std::string::npos) return {swept, {}};
    begin = end + 1;
  }
}

std::vector<Combination> combinations(const std::vector<SweptKey>& keys) {
  std::vector<Combination> all{{}};
  for (const SweptKey& key : keys) {
    std::vector<Combination> longer;
    for (const Combination& one : all)
      for (const std::string& value : key.values) {
        longer.push_back(one);
        longer.back().push_back(value);
      }
    all = std::move(longer);
  }
  return all;
}

ScenarioChanges changes_of(const std::vector<SweptKey>& keys, const Combination& combination, ScenarioChanges changes) {
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i].key == kCcKey)
      changes.cc = combination[i];
    else
      changes.sets.push_back(keys[i].key + "=" + combination[i]);
  return changes;
}

std::string numbered_path(const std::string& path, std::size_t number, std::size_t count) {
  const std::size_t digits = std::to_string(count - 1).size();
  std::filesystem::path out(path);
  out.replace_extension(fmt::format(".{:0{}}{}", number, digits, out.extension().string()));
  return out.string();
}

}  // namespace roci::lab
