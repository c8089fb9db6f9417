#include "tools/lab/scenario_document.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "stack/base/nearest_name.h"

namespace roci::lab {
namespace {

struct TableName {
  std::string_view name;
  bool is_list;  ///< [[name]]
};

constexpr std::array<TableName, 7> kTables{{{"topology", false},
                                            {"switch", false},
                                            {"host", false},
                                            {"host_override", true},
                                            {"workload", true},
                                            {"fault", true},
                                            {"run", false}}};
constexpr std::string_view kCcKey = "cc";

const TableName* find_table(std::string_view name) {
  const auto found = std::find_if(kTables.begin(), kTables.end(), [&](const TableName& t) { return t.name == name; });
  return found == kTables.end() ? nullptr : &*found;
}

std::string unknown_table(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TableName& table : kTables) names.push_back(table.name);
  return fmt::format("no table is called \"{}\"{}; there are {}", name, nearest_hint(name, names),
                     fmt::join(names, ", "));
}

/// Of a value, or of the elements of a list; nothing for a table or a date.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return text;
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  if (const auto truth = node.value_exact<bool>()) return *truth ? "true" : "false";
  const toml::array* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::vector<std::string> parts;
  for (const toml::node& element : *array) {
    const auto part = element.is_array() ? std::nullopt : text_of(element);
    if (!part) return std::nullopt;
    parts.push_back(*part);
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

class DocumentReader {
 public:
  explicit DocumentReader(const std::string& path) { document_.path = path; }

  /// What is wrong; empty if nothing is.
  std::string read();
  std::string apply(const std::string& set);
  void set_cc(const std::string& cc);
  Document take() { return std::move(document_); }

 private:
  std::string at(const toml::source_position& position) const {
    return fmt::format("{}:{}", document_.path, position.line);
  }
  std::string read_table(const toml::key& key, const toml::node& node);
  std::string read_section(std::string_view name, const toml::table& table, const toml::source_position& begin);
  Section& section_to_change(std::string_view name);
  std::string find_in_list(std::string_view name, std::string_view index, Section** section);

  Document document_;
};

std::string DocumentReader::read() {
  const std::string& path = document_.path;
  if (std::error_code failed; std::filesystem::is_directory(path, failed)) return path + ": a folder, not a file";
  toml::table root;
  try {
    root = toml::parse_file(path);
  } catch (const toml::parse_error& failure) {
    const auto line = failure.source().begin.line;  // 0 when the file could not be read
    return fmt::format("{}{}: {}", path, line > 0 ? fmt::format(":{}", line) : "", failure.description());
  }
  std::vector<std::pair<const toml::key*, const toml::node*>> in_order;
  for (const auto& [key, node] : root) in_order.emplace_back(&key, &node);
  std::sort(in_order.begin(), in_order.end(),
            [](const auto& a, const auto& b) { return a.first->source().begin < b.first->source().begin; });
  for (const auto& [key, node] : in_order)
    if (std::string wrong = read_table(*key, *node); !wrong.empty()) return wrong;
  return {};
}

std::string DocumentReader::read_table(const toml::key& key, const toml::node& node) {
  const std::string where = at(key.source().begin);
  const TableName* table = find_table(key.str());
  if (table == nullptr) return where + ": " + unknown_table(key.str());
  if (!table->is_list) {
    if (!node.is_table()) return fmt::format("{}: {} is a table: [{}]", where, table->name, table->name);
    return read_section(table->name, *node.as_table(), key.source().begin);
  }
  if (!node.is_array_of_tables())
    return fmt::format("{}: {} is a list of tables: [[{}]]", where, table->name, table->name);
  for (const toml::node& element : *node.as_array())
    if (std::string wrong = read_section(table->name, *element.as_table(), element.source().begin); !wrong.empty())
      return wrong;
  return {};
}

std::string DocumentReader::read_section(std::string_view name, const toml::table& table,
                                         const toml::source_position& begin) {
  std::vector<std::pair<toml::source_position, Entry>> in_order;
  for (const auto& [key, node] : table) {
    const std::string where = at(key.source().begin);
    const auto text = text_of(node);
    if (!text) return fmt::format("{}: {}: takes a string, a number or a list of them", where, key.str());
    in_order.push_back({key.source().begin, {std::string(key.str()), *text, where}});
  }
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Section& section = document_.sections.emplace_back(Section{name, at(begin), {}});
  for (auto& [position, entry] : in_order) section.entries.push_back(std::move(entry));
  return {};
}

Section& DocumentReader::section_to_change(std::string_view name) {
  for (Section& section : document_.sections)
    if (section.name == name) return section;
  return document_.sections.emplace_back(Section{name, document_.path, {}});
}

std::string DocumentReader::find_in_list(std::string_view name, std::string_view index, Section** section) {
  const auto number = parse_count(index);
  if (!number) return fmt::format("[[{0}]] is a list: {0}.INDEX.KEY, the first has index 0", name);
  std::uint64_t count = 0;
  for (Section& candidate : document_.sections)
    if (candidate.name == name && count++ == number.value) *section = &candidate;
  if (number.value < count) return {};
  return fmt::format("{} has {} [[{}]], and the first has index 0", document_.path, count, name);
}

std::string DocumentReader::apply(const std::string& set) {
  const std::string where = "--set " + set;
  const std::string_view text = set;
  const std::size_t equals = text.find('=');
  const std::string_view path = text.substr(0, equals);
  const std::size_t dot = path.find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos)
    return where + ": not of the form table.key=value";
  const TableName* table = find_table(path.substr(0, dot));
  if (table == nullptr) return where + ": " + unknown_table(path.substr(0, dot));
  std::string_view key = path.substr(dot + 1);
  Section* section = nullptr;
  if (table->is_list) {
    const std::size_t next = key.find('.');
    if (std::string wrong = find_in_list(table->name, key.substr(0, next), &section); !wrong.empty())
      return where + ": " + wrong;
    key = next == std::string_view::npos ? std::string_view() : key.substr(next + 1);
  } else {
    section = &section_to_change(table->name);
  }
  std::erase_if(section->entries, [key](const Entry& entry) { return entry.key == key; });
  section->entries.push_back({std::string(key), set.substr(equals + 1), where});
  return {};
}

void DocumentReader::set_cc(const std::string& cc) {
  Section& host = section_to_change("host");
  for (Section& section : document_.sections)
    if (&section == &host || section.name == "host_override")
      std::erase_if(section.entries, [](const Entry& entry) { return entry.key == kCcKey; });
  host.entries.push_back({std::string(kCcKey), cc, "--cc " + cc});
}

}  // namespace

const Entry* Section::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

const Section* Document::one(std::string_view name) const {
  const auto found =
      std::find_if(sections.begin(), sections.end(), [&](const Section& section) { return section.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

std::vector<const Section*> Document::all(std::string_view name) const {
  std::vector<const Section*> found;
  for (const Section& section : sections)
    if (section.name == name) found.push_back(&section);
  return found;
}

Parsed<Document> read_document(const std::string& path, const ScenarioChanges& changes) {
  DocumentReader reader(path);
  std::string wrong = reader.read();
  for (std::size_t i = 0; wrong.empty() && i < changes.sets.size(); ++i) wrong = reader.apply(changes.sets[i]);
  if (!wrong.empty()) return {{}, wrong};
  if (!changes.cc.empty()) reader.set_cc(changes.cc);
  return {reader.take(), {}};
}

}  // namespace roci::lab
