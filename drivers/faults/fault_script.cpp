#include "drivers/faults/fault_script.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "stack/base/nearest_name.h"
#include "stack/base/units.h"
#include "stack/wire/opcodes.h"

namespace roci {
namespace {

constexpr std::uint32_t kMaxCopies = 64;
constexpr std::uint32_t kMaxReorder = 1024;
constexpr Duration kMaxDelay = seconds(1000);

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

template <class Number>
std::optional<Number> parse_number(std::string_view text, Number least, Number most) {
  Number value{};
  const bool is_hex = text.starts_with("0x");
  const std::string_view digits = is_hex ? text.substr(2) : text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, is_hex ? 16 : 10);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < least || value > most)
    return std::nullopt;
  return value;
}

/// "A..B" or "A", which is "A..A".
std::pair<std::string_view, std::string_view> split_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return {text, text};
  return {text.substr(0, dots), text.substr(dots + 2)};
}

using Wrong = std::string;  // what is wrong, empty if nothing

template <class Number>
Wrong need_number(std::string_view text, Number least, Number most, Number* out) {
  const auto value = parse_number<Number>(text, least, most);
  if (value) {
    *out = *value;
    return {};
  }
  const std::string limits = most == std::numeric_limits<Number>::max()
                                 ? std::to_string(least) + " or more"
                                 : std::to_string(least) + " to " + std::to_string(most);
  return quoted(text) + " is not a number, " + limits;
}

// Actions.

/// `given` tells whether there is a value at all.
Wrong no_value(std::string_view, bool given, FaultRow*) { return given ? "the action takes no value" : ""; }

Wrong set_copies(std::string_view value, bool given, FaultRow* row) {
  return given ? need_number(value, 1u, kMaxCopies, &row->copies) : Wrong();
}

Wrong set_delay(std::string_view value, bool, FaultRow* row) {
  const auto [least_text, most_text] = split_range(value);
  const auto least = parse_time(least_text);
  const auto most = parse_time(most_text);
  if (!least) return least.wrong;
  if (!most) return most.wrong;
  if (most.value < least.value || most.value > kMaxDelay)
    return quoted(value) + " is not a time such as 500ns, 1.5ms or 10us..50us, at most " + time_text(kMaxDelay);
  row->delay_least = least.value;
  row->delay_most = most.value;
  return {};
}

Wrong set_reorder(std::string_view value, bool, FaultRow* row) {
  return need_number(value, 1u, kMaxReorder, &row->reorder_by);
}

Wrong set_bit(std::string_view value, bool given, FaultRow* row) {
  if (!given || value == "random") return {};
  return need_number(value, 0u, 65'535u, &row->bit);
}

struct Action {
  std::string_view name;
  FaultAction action;
  Wrong (*set)(std::string_view value, bool given, FaultRow* row);
};

constexpr auto kActions = std::to_array<Action>({
    {"drop", FaultAction::kDrop, no_value},
    {"duplicate", FaultAction::kDuplicate, set_copies},
    {"delay", FaultAction::kDelay, set_delay},
    {"reorder", FaultAction::kReorder, set_reorder},
    {"corrupt", FaultAction::kCorrupt, set_bit},
    {"mark-ce", FaultAction::kMarkCe, no_value},
});
static_assert(kActions.size() == kFaultActions);

// Matches.

struct OpcodeGroup {
  std::string_view name;
  bool (*holds)(const OpcodeInfo& info);
};

bool is_atomic(const OpcodeInfo& info) {
  return info.operation == Operation::kCompareSwap || info.operation == Operation::kFetchAdd;
}
bool is_acknowledge(const OpcodeInfo& info) { return info.operation == Operation::kAcknowledge; }

constexpr auto kOpcodeGroups = std::to_array<OpcodeGroup>({
    {"any", [](const OpcodeInfo&) { return true; }},
    {"request", [](const OpcodeInfo& info) { return info.is_request(); }},
    {"response", [](const OpcodeInfo& info) { return info.is_response(); }},
    {"send", [](const OpcodeInfo& info) { return info.operation == Operation::kSend; }},
    {"write", [](const OpcodeInfo& info) { return info.operation == Operation::kRdmaWrite; }},
    {"read", [](const OpcodeInfo& info) { return info.operation == Operation::kRdmaReadRequest; }},
    {"read-response", [](const OpcodeInfo& info) { return info.operation == Operation::kRdmaReadResponse; }},
    {"atomic", is_atomic},
    {"atomic-response", [](const OpcodeInfo& info) { return info.operation == Operation::kAtomicAcknowledge; }},
    {"ack", is_acknowledge},
    {"nak", is_acknowledge},
    {"rnr-nak", is_acknowledge},
    {"cnp", [](const OpcodeInfo& info) { return info.operation == Operation::kCnp; }},
});
constexpr std::string_view kNotRoce = "not-roce";

/// Groups of ACKNOWLEDGEs name one kind of syndrome, all else names every kind.
void add_kinds(std::string_view name, OpcodeMatch* match) {
  const bool one_kind = name == "ack" || name == "nak" || name == "rnr-nak";
  match->acks |= !one_kind || name == "ack";
  match->naks |= !one_kind || name == "nak";
  match->rnr_naks |= !one_kind || name == "rnr-nak";
}

Wrong add_opcode(std::string_view name, OpcodeMatch* match) {
  std::vector<std::string_view> names = {kNotRoce};
  if (name == kNotRoce) {
    match->not_roce = true;
    return {};
  }
  bool found = false;
  for (const OpcodeGroup& group : kOpcodeGroups) {
    names.push_back(group.name);
    for (std::size_t i = 0; i < kOpcodes.size(); ++i) {
      if (group.name != name || !kOpcodes[i].known || !group.holds(kOpcodes[i])) continue;
      match->opcodes.set(i);
      found = true;
    }
  }
  for (std::size_t i = 0; i < kOpcodes.size(); ++i) {
    if (!kOpcodes[i].known) continue;
    names.push_back(kOpcodes[i].name);
    if (kOpcodes[i].name != name) continue;
    match->opcodes.set(i);
    found = true;
  }
  if (!found) return "no opcode and no group is called " + quoted(name) + nearest_hint(name, names);
  add_kinds(name, match);
  return {};
}

Wrong set_opcode(std::string_view value, FaultRow* row) {
  row->any_opcode = false;
  for (std::string_view rest = value;;) {
    const std::size_t comma = rest.find(',');
    if (Wrong wrong = add_opcode(rest.substr(0, comma), &row->opcode); !wrong.empty()) return wrong;
    if (comma == std::string_view::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

Wrong set_qp(std::string_view value, FaultRow* row) {
  row->any_qp = false;
  return need_number(value, 0u, Qpn::kMask, &row->qp.value);
}

Wrong set_psn(std::string_view value, FaultRow* row) {
  row->any_psn = false;
  const auto [first, last] = split_range(value);
  if (Wrong wrong = need_number(first, 0u, Psn::kMask, &row->psn_first); !wrong.empty()) return wrong;
  return need_number(last, row->psn_first, Psn::kMask, &row->psn_last);
}

Wrong set_direction(std::string_view value, FaultRow* row) {
  row->tx = value == "tx";
  row->rx = value == "rx";
  return row->tx || row->rx ? Wrong() : quoted(value) + " is not a direction: tx or rx";
}

Wrong set_nth(std::string_view value, FaultRow* row) {
  return need_number<std::uint64_t>(value, 1, UINT64_MAX, &row->nth);
}

Wrong set_every(std::string_view value, FaultRow* row) {
  return need_number<std::uint64_t>(value, 1, UINT64_MAX, &row->every);
}

Wrong set_rate(std::string_view value, FaultRow* row) {
  const auto rate = parse_fraction(value);
  row->rate = rate.value;
  return rate.wrong;
}

Wrong set_times(std::string_view value, FaultRow* row) {
  return need_number<std::uint64_t>(value, 1, UINT64_MAX, &row->times);
}

struct Match {
  std::string_view name;
  Wrong (*set)(std::string_view value, FaultRow* row);
};

constexpr auto kMatches = std::to_array<Match>({
    {"opcode", set_opcode},
    {"qp", set_qp},
    {"psn", set_psn},
    {"dir", set_direction},
    {"nth", set_nth},
    {"every", set_every},
    {"rate", set_rate},
    {"times", set_times},
});

// Lines.

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  while (true) {
    const std::size_t start = line.find_first_not_of(kSpace);
    if (start == std::string_view::npos) return words;
    line.remove_prefix(start);
    words.push_back(line.substr(0, line.find_first_of(kSpace)));
    line.remove_prefix(words.back().size());
  }
}

/// "key=value" in two; no '=' gives no value.
std::pair<std::string_view, std::optional<std::string_view>> split_word(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return {word, std::nullopt};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

template <class Named, std::size_t N>
const Named* find_named(const std::array<Named, N>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [name](const Named& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

template <class Named, std::size_t N>
std::string hint_from(const std::array<Named, N>& table, std::string_view word, std::vector<std::string_view> names) {
  for (const Named& row : table) names.push_back(row.name);
  return nearest_hint(word, names);
}

Wrong parse_match(std::string_view word, FaultRow* row) {
  const auto [name, value] = split_word(word);
  const Match* match = find_named(kMatches, name);
  if (match == nullptr) return "no match is called " + quoted(name) + hint_from(kMatches, name, {});
  if (!value || value->empty()) return quoted(name) + " needs a value: " + std::string(name) + "=...";
  return match->set(*value, row);
}

Wrong parse_line(std::span<const std::string_view> words, std::uint32_t line, FaultScript* script) {
  const auto [name, value] = split_word(words[0]);
  if (name == "seed") {
    if (words.size() > 1) return "nothing follows the seed on its line";
    return need_number<std::uint64_t>(value.value_or(""), 0, UINT64_MAX, &script->seed);
  }
  const Action* action = find_named(kActions, name);
  if (action == nullptr) return "no action is called " + quoted(name) + hint_from(kActions, name, {"seed"});
  FaultRow row{.action = action->action, .line = line};
  if (Wrong wrong = action->set(value.value_or(""), value.has_value(), &row); !wrong.empty()) return wrong;
  bool gives_nth = false;
  bool gives_how_often = false;
  for (std::string_view word : words.subspan(1)) {
    if (Wrong wrong = parse_match(word, &row); !wrong.empty()) return wrong;
    const std::string_view key = split_word(word).first;
    gives_nth |= key == "nth";
    gives_how_often |= key == "every" || key == "rate" || key == "times";
  }
  if (gives_nth && !gives_how_often) row.times = 1;
  script->rows.push_back(row);
  return {};
}

}  // namespace

std::string_view fault_action_name(FaultAction action) { return kActions[static_cast<std::size_t>(action)].name; }

bool parse_fault_script(std::string_view text, std::string_view file_name, FaultScript* script, std::string* error) {
  FaultScript parsed;
  std::uint32_t line = 0;
  while (!text.empty()) {
    ++line;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    if (Wrong wrong = parse_line(words, line, &parsed); !wrong.empty()) {
      *error = std::string(file_name) + ":" + std::to_string(line) + ": " + wrong;
      return false;
    }
  }
  *script = std::move(parsed);
  return true;
}

bool read_fault_script(const std::string& path, FaultScript* script, std::string* error) {
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) {
    *error = path + ": cannot be opened";
    return false;
  }
  std::string text;
  std::array<char, 4096> block;
  for (std::size_t n = 1; n > 0;) {
    n = std::fread(block.data(), 1, block.size(), file);
    text.append(block.data(), n);
  }
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) {
    *error = path + ": cannot be read";
    return false;
  }
  return parse_fault_script(text, path, script, error);
}

}  // namespace roci
