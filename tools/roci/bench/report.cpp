#include "tools/roci/bench/report.h"

#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace roci::bench {
namespace {

/// A row of the table as text; a row with several comparisons has a line for each.
struct Line {
  std::string_view group;
  std::string what;
  std::string figure;
  std::string beside;
  std::string wanted;
  std::string verdict;
  std::string limit;
};

const Result& result_of(const Row& row, const Results& results) {
  static const Result none{.samples = {}, .absent = "not measured", .limit = ""};
  const auto found = results.find(row.id);
  return found == results.end() ? none : found->second;
}

std::string limit_of(const Row& row, const Result& result) {
  return result.limit.empty() ? std::string(row.limit) : result.limit;
}

/// Without a yardstick there are no ratios; a target that is a number of its own stays.
std::vector<Judgement> judgements_of(const Row& row, const Results& results) {
  std::vector<Judgement> judgements = judge(row, results);
  if (!yardstick_is_good(results))
    std::erase_if(judgements, [](const Judgement& each) { return each.ratio.has_value(); });
  return judgements;
}

std::string wanted_text(const Judgement& judgement, Unit unit) {
  const Comparison& comparison = *judgement.comparison;
  if (comparison.demand == Demand::kNone) return "";
  const std::string_view sense = comparison.demand == Demand::kAtLeast ? "at least" : "at most";
  if (comparison.of.empty() || comparison.plus != 0)
    return fmt::format("{} {}", sense, format_figure(judgement.bound, unit));
  return fmt::format("{} {:g}", sense, comparison.factor);
}

std::string verdict_text(const Judgement& judgement) {
  if (judgement.comparison->demand == Demand::kNone) return "";
  return judgement.met ? "met" : "missed";
}

std::string ratio_text(double ratio) {
  if (ratio >= 10) return fmt::format("{:.0f}", ratio);
  return ratio >= 0.1 ? fmt::format("{:.2f}", ratio) : fmt::format("{:.3f}", ratio);
}

std::string beside_text(const Judgement& judgement) {
  if (!judgement.ratio.has_value()) return "";
  return fmt::format("{} of {}", ratio_text(*judgement.ratio), judgement.comparison->name);
}

std::vector<Line> lines_of(const Report& report) {
  std::vector<Line> lines;
  for (const Row* row : report.rows) {
    const Result& result = result_of(*row, report.results);
    Line line{row->group, std::string(row->what), "", "", "", "", ""};
    if (result.samples.empty()) {
      line.figure = "absent";
      line.limit = result.absent;
      lines.push_back(line);
      continue;
    }
    line.figure = format_figure(median(result.samples), row->unit);
    line.limit = limit_of(*row, result);
    const std::vector<Judgement> judgements = judgements_of(*row, report.results);
    for (const Judgement& judgement : judgements) {
      line.beside = beside_text(judgement);
      line.wanted = wanted_text(judgement, row->unit);
      line.verdict = verdict_text(judgement);
      lines.push_back(line);
      line.what = line.figure = line.limit = "";
    }
    if (judgements.empty()) lines.push_back(line);
  }
  return lines;
}

std::string machine_text(const Report& report) {
  const Machine& machine = report.machine;
  std::string text = fmt::format("roci {}, median of {} round{}; {}, {} core{}, Linux {}", report.version,
                                 report.rounds, report.rounds == 1 ? "" : "s", machine.processor, machine.cores,
                                 machine.cores == 1 ? "" : "s", machine.kernel);
  if (machine.core_round_trip_ns.has_value())
    text += fmt::format("; {:.0f} ns from one core to another and back", *machine.core_round_trip_ns);
  if (machine.unsteady > 0) text += fmt::format(", {} measurements with more", machine.unsteady);
  return text;
}

std::string colour_of(const std::string& verdict, std::string padded, bool colour) {
  if (!colour || verdict.empty()) return padded;
  return fmt::format(fmt::fg(verdict == "met" ? fmt::terminal_color::green : fmt::terminal_color::red), "{}", padded);
}

nlohmann::ordered_json or_null(std::optional<double> value) {
  return value.has_value() ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

/// The widest text of a column.
template <class Text>
std::size_t width_of(const std::vector<Line>& lines, Text text) {
  std::size_t width = 0;
  for (const Line& line : lines) width = std::max(width, (line.*text).size());
  return width;
}

std::string without_trailing_blanks(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string yardstick_warning(const Results& results) {
  const std::optional<double> ratio = yardstick(results);
  if (!ratio.has_value()) return "The yardstick is missing: the bare cable was not measured. There are no ratios.";
  if (*ratio >= kLeastYardstick) return "";
  return fmt::format(
      "The yardstick is bad: the bare cable carries {:.2f} of what one core copies and checks, and {:g} is the least. "
      "Something else uses the cores, or they are one; there are no ratios.",
      *ratio, kLeastYardstick);
}

std::string to_text(const Report& report, bool colour) {
  const std::vector<Line> lines = lines_of(report);
  const std::size_t what = width_of(lines, &Line::what);
  const std::size_t figure = width_of(lines, &Line::figure);
  const std::size_t beside = width_of(lines, &Line::beside);
  const std::size_t wanted = width_of(lines, &Line::wanted);
  std::string text;
  if (const std::string warning = yardstick_warning(report.results); !warning.empty()) text += warning + "\n\n";
  text += machine_text(report) + "\n";
  std::string_view group;
  for (const Line& line : lines) {
    if (line.group != group) text += fmt::format("\n{}\n", line.group);
    group = line.group;
    const std::string verdict = colour_of(line.verdict, fmt::format("{:<6}", line.verdict), colour);
    text +=
        without_trailing_blanks(fmt::format("  {:<{}}  {:>{}}  {:<{}}  {:<{}}  {}  {}", line.what, what, line.figure,
                                            figure, line.beside, beside, line.wanted, wanted, verdict, line.limit)) +
        "\n";
  }
  return text;
}

std::string to_markdown(const Report& report) {
  std::string text = machine_text(report) + ".\n";
  if (const std::string warning = yardstick_warning(report.results); !warning.empty())
    text += "\n**" + warning + "**\n";
  std::string_view group;
  for (const Line& line : lines_of(report)) {
    if (line.group != group)
      text +=
          fmt::format("\n| {} | figure | beside | target | | limited by |\n|---|---|---|---|---|---|\n", line.group);
    group = line.group;
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", line.what, line.figure, line.beside, line.wanted,
                        line.verdict, line.limit);
  }
  return text;
}

nlohmann::ordered_json to_json(const Report& report) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row* row : report.rows) {
    const Result& result = result_of(*row, report.results);
    nlohmann::ordered_json object{{"id", row->id}, {"group", row->group}, {"what", row->what}};
    if (result.samples.empty()) {
      object["absent"] = result.absent;
      rows.push_back(std::move(object));
      continue;
    }
    constexpr std::string_view kUnits[] = {"Gb/s", "GB/s", "1/s", "us", "s", "B", "cores"};
    object["unit"] = kUnits[static_cast<std::size_t>(row->unit)];
    object["figure"] = median(result.samples);
    object["samples"] = result.samples;
    object["limited_by"] = limit_of(*row, result);
    nlohmann::ordered_json comparisons = nlohmann::ordered_json::array();
    for (const Judgement& judgement : judgements_of(*row, report.results)) {
      nlohmann::ordered_json each = nlohmann::ordered_json::object();
      if (judgement.ratio.has_value()) {
        each["of"] = judgement.comparison->of;
        each["ratio"] = *judgement.ratio;
      }
      if (judgement.comparison->demand != Demand::kNone) {
        each[judgement.comparison->demand == Demand::kAtLeast ? "at_least" : "at_most"] = judgement.bound;
        each["met"] = judgement.met;
      }
      comparisons.push_back(std::move(each));
    }
    object["comparisons"] = std::move(comparisons);
    rows.push_back(std::move(object));
  }
  const std::optional<double> ratio = yardstick(report.results);
  return {{"version", report.version},
          {"machine",
           {{"processor", report.machine.processor},
            {"cores", report.machine.cores},
            {"kernel", report.machine.kernel},
            {"core_round_trip_ns", or_null(report.machine.core_round_trip_ns)}}},
          {"unsteady", report.machine.unsteady},
          {"rounds", report.rounds},
          {"yardstick",
           {{"good", yardstick_is_good(report.results)}, {"ratio", or_null(ratio)}, {"at_least", kLeastYardstick}}},
          {"rows", std::move(rows)}};
}

std::string replace_section(std::string_view document, std::string_view section) {
  const std::size_t begin = document.find(kSectionBegin);
  const std::size_t end = document.find(kSectionEnd);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return "";
  return fmt::format("{}{}\n\n{}\n{}", document.substr(0, begin), kSectionBegin, section, document.substr(end));
}

}  // namespace roci::bench
