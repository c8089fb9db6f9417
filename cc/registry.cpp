#include "cc/registry.h"

#include <algorithm>
#include <array>
#include <vector>

#include "cc/dcqcn.h"
#include "cc/fixed.h"

namespace roci {
namespace {

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

constinit const CcAlgorithm kNoneAlgorithm = {
    .name = "none",
    .about = "no congestion control: line rate, and marks are not answered",
    .presets = {},
    .configure =
        [](std::span<const CcOption> options, CcSpec*) {
          return options.empty() ? std::string() : "it has no keys, but got " + quoted(options.front().key);
        },
    .keys = [] { return std::vector<CcKeyHelp>(); }};

constexpr std::array<const CcAlgorithm*, 3> kAlgorithms = {&kNoneAlgorithm, &kFixedAlgorithm, &kDcqcnAlgorithm};

std::string unknown_algorithm(std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const CcAlgorithm* algorithm : kAlgorithms) {
    names.push_back(algorithm->name);
    list += (list.empty() ? "" : ", ") + std::string(algorithm->name);
  }
  return "no congestion control is called " + quoted(name) + nearest_hint(name, names) + "; there are " + list;
}

/// What is wrong; empty if nothing is.
std::string split_options(std::string_view rest, std::vector<CcOption>* options) {
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return quoted(word) + " is not of the form key=value";
    const CcOption option{word.substr(0, equals), word.substr(equals + 1)};
    for (const CcOption& earlier : *options)
      if (earlier.key == option.key) return std::string(option.key) + " is given twice";
    options->push_back(option);
    if (comma == std::string_view::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

std::span<const CcAlgorithm* const> cc_algorithms() { return kAlgorithms; }

Parsed<CcSpec> parse_cc(std::string_view text) {
  const std::size_t comma = text.find(',');
  const std::string_view name = text.substr(0, comma);
  const auto algorithm =
      std::find_if(kAlgorithms.begin(), kAlgorithms.end(), [&](const CcAlgorithm* a) { return a->name == name; });
  if (algorithm == kAlgorithms.end()) return {{}, unknown_algorithm(name)};
  std::vector<CcOption> options;
  std::string wrong;
  if (comma != std::string_view::npos) wrong = split_options(text.substr(comma + 1), &options);
  CcSpec spec;
  if (wrong.empty()) wrong = (*algorithm)->configure(options, &spec);
  if (!wrong.empty()) return {{}, std::string(name) + ": " + wrong};
  return {spec, {}};
}

std::string cc_help() {
  std::string out;
  for (const CcAlgorithm* algorithm : kAlgorithms) {
    out += std::string(algorithm->name) + ": " + std::string(algorithm->about) + '\n';
    for (const CcKeyHelp& key : algorithm->keys()) {
      out += "  " + std::string(key.name) + ": " + std::string(key.about);
      for (std::size_t i = 0; i < key.defaults.size(); ++i) {
        if (key.defaults[i].empty()) continue;
        const bool named = i < algorithm->presets.size();
        out += (i == 0 ? " [" : ", ") + (named ? std::string(algorithm->presets[i]) + ' ' : std::string()) +
               key.defaults[i] + (i + 1 == key.defaults.size() ? "]" : "");
      }
      out += '\n';
    }
  }
  return out;
}

}  // namespace roci
