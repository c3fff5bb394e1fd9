#include "benchmarks/program/screen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/suite/suite.h"
#include "harness/errors.h"
#include "reports/files/json_value.h"
#include "reports/standard_output.h"
#include "reports/tables/answer.h"
#include "reports/tables/table.h"

namespace stbench {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// The columns that the environment or the terminal tells of.
std::size_t screen_width(int descriptor) {
  constexpr int narrowest = 40, widest = 160;
  const char* const text = std::getenv("COLUMNS");
  winsize size{};
  int columns = text == nullptr ? 0 : std::atoi(text);
  if (columns <= 0 && ::isatty(descriptor) != 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0)
    columns = size.ws_col;
  if (columns <= 0) return reports::kScreenWidth;
  return static_cast<std::size_t>(std::clamp(columns, narrowest, widest));
}

/// The first table of ours that was held (of any, if there is none), or null.
const reports::Record* held_table(const reports::Report& report) {
  const reports::Record* any = nullptr;
  for (const auto& record : report.records) {
    if (record.id.suite != "memory" || !reports::has_numbers(record.status)) continue;
    if (record.id.method == "speedtorch") return &record;
    if (any == nullptr) any = &record;
  }
  return any;
}

/// The fastest row of ours (of any, if there is none), as --case takes it: a line break between its words
/// does no harm. Where nothing was timed, a table that was held.
std::string rerun_hint(const reports::Report& report, reports::Style style) {
  const reports::Record* best = nullptr;
  const auto rank = [](const reports::Record& record) {
    return std::pair(record.id.method != "speedtorch", *record.median_s);
  };
  for (const auto& record : report.records) {
    if (!record.median_s || record.samples == 0) continue;
    if (best == nullptr || rank(record) < rank(*best)) best = &record;
  }
  if (best == nullptr) best = held_table(report);
  if (best == nullptr) return {};
  const bool usual = report.seed == Options{}.seed || report.program.empty();  // a CSV does not say
  const auto seed = usual ? "" : fmt::format(" --seed {}", report.seed);
  if (style.markdown)
    return fmt::format("One row again:\n\n```sh\nstbench --case '{}'{}\n```\n",
                       reports::one_line(case_id_of(best->id)), seed);
  return reports::lines_of(fmt::format("One row again: stbench --case '{}'{}", case_id_of(best->id), seed), 2,
                           reports::Paint::none, style);
}

/// One line with the findings of `stbench doctor` that spoil numbers; empty if there is none.
std::string spoiling_line(const reports::Report& report, reports::Style style) {
  const auto* const findings = reports::json_at(report.environment, "/doctor/findings");
  std::vector<std::string> found;
  if (findings != nullptr && findings->is_array()) {
    for (const auto& one : *findings) {
      if (one.value("verdict", "") != "spoils") continue;
      const auto text = one.value("found", "");  // its first clause says enough for one line
      found.push_back(fmt::format("{}: {}", one.value("check", ""), text.substr(0, text.find(','))));
    }
  }
  if (found.empty()) return {};
  constexpr std::string_view cure = " (stbench doctor)";
  auto line = style;
  if (line.markdown) line.width = std::numeric_limits<std::size_t>::max();
  const auto text = reports::one_line(fmt::format("Spoils numbers here: {}", fmt::join(found, "; ")));
  const auto room = line.width - cure.size();
  return "\n" + reports::lines_of(fmt::format("{}{}", reports::shortened(text, room), cure), 2,
                                  reports::Paint::doubtful, style);
}

}  // namespace

bool is_terminal(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

reports::Style style_for(const std::string& color, int descriptor) {
  const bool on = color == "always" || (color == "auto" && is_terminal(descriptor) && !is_set("NO_COLOR"));
  return {on, screen_width(descriptor), false};
}

bool shows_tables(bool report_takes_stdout, bool file_takes_results) {
  if (report_takes_stdout) return false;
  if (!reports::standard_output_is_closed()) return true;
  if (file_takes_results) return false;
  throw UsageError(
      "stdout is closed, so the results would be lost; leave it open, or name a file (--json FILE)");
}

std::string machine_text(const reports::Report& report) {
  const auto& environment = report.environment;
  const auto text = [&](const char* pointer) {
    const auto* value = reports::json_at(environment, pointer);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string("unknown");
  };
  const auto number = [&](const char* pointer) {
    const auto* value = reports::json_at(environment, pointer);
    return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : 0;
  };
  if (reports::json_at(environment, "/cpu") == nullptr) return {};
  const auto devices = number("/cuda/devices");
  const auto gpu =
      devices == 0 ? std::string("no GPU in use") : fmt::format("{} × {}", devices, text("/cuda/names/0"));
  const auto* design =
      reports::json_at(environment, "/cpu/design");  // one model name may stand for several designs
  const auto cpu = design != nullptr && design->is_string()
                       ? fmt::format("{} ({})", text("/cpu/model"), design->get<std::string>())
                       : text("/cpu/model");
  return fmt::format("{}: {}, {} allowed, {} memory, LibTorch {}, {}", report.program, cpu,
                     reports::cores_text(number("/cpu/cores_allowed")),
                     reports::bytes_text(number("/memory/total_bytes")), text("/libtorch/version"), gpu);
}

std::string machine_line(const reports::Report& report, reports::Style style) {
  const auto text = machine_text(report);
  return text.empty() ? text : reports::lines_of(text, 2, reports::Paint::none, style);
}

std::string markdown_of(const reports::Report& report) {
  const reports::Style style{false, reports::kScreenWidth, true};
  auto text = machine_line(report, style) + screen_text(report, style);
  for (auto at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at))
    text.erase(at, 1);
  return text;
}

std::string screen_text(const reports::Report& report, reports::Style style) {
  std::string text = "\n" + reports::render_tables(report, style, tables_of);
  text += spoiling_line(report, style);
  if (const auto answer = reports::answer(report, style); !answer.empty()) text += "\n" + answer;
  if (const auto hint = rerun_hint(report, style); !hint.empty()) text += "\n" + hint;
  return text;
}

}  // namespace stbench
