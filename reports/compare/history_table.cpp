#include "reports/compare/history_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reports/compare/compared_texts.h"
#include "reports/error.h"
#include "reports/files/csv_cells.h"
#include "reports/files/json_value.h"
#include "reports/group.h"
#include "reports/number.h"
#include "reports/statistics/statistics.h"
#include "reports/tables/grid.h"
#include "reports/tables/notes.h"

namespace stbench::reports {
namespace {

constexpr std::size_t kMostBars = 24;
constexpr std::string_view kLegend =
    "The chart has the oldest report on the left; higher is slower. change: the latest against the median of "
    "the "
    "earlier reports. drift: the trend over all reports, marked ! if it is one. Values are shares of the "
    "ceiling "
    "if the case has one, else times. Ceilings and controls never count as slower.";

/// The medians of as many neighbourhoods as there is room for.
std::vector<std::optional<double>> thinned(const std::vector<std::optional<double>>& values,
                                           std::size_t width) {
  if (values.size() <= width) return values;
  std::vector<std::optional<double>> medians;
  for (std::size_t bar = 0; bar < width; ++bar) {
    std::vector<double> numbers;
    for (std::size_t i = bar * values.size() / width; i < (bar + 1) * values.size() / width; ++i) {
      if (values[i]) numbers.push_back(*values[i]);
    }
    medians.push_back(numbers.empty() ? std::nullopt : std::optional(median(numbers)));
  }
  return medians;
}

bool is_marked(const HistoryRow& row) {
  return row.drifts || is_moved(row.latest) || row.latest.verdict == Verdict::now_wrong ||
         row.latest.verdict == Verdict::missing;
}

Paint paint_of(const HistoryRow& row) {
  if (!is_marked(row) || row.latest.part != Part::subject) return Paint::none;
  const bool slower = row.latest.verdict == Verdict::slower || (row.drifts && *row.drift > 0);
  const bool lost = row.latest.verdict == Verdict::now_wrong || row.latest.verdict == Verdict::missing;
  return slower || lost ? Paint::bad : Paint::good;
}

std::string drift_text(const HistoryRow& row) {
  return row.drift ? percent(*row.drift) + (row.drifts ? " !" : "") : "";
}

std::string change_text(const HistoryRow& row) {
  const ComparedCase& latest = row.latest;
  if (!latest.change)
    return latest.verdict == Verdict::added ? "new" : std::string(to_string(latest.verdict));
  return percent(*latest.change) + (is_moved(latest) ? " !" : "");
}

std::vector<GridCell> cells_of(const HistoryRow& row, const std::string& text) {
  const std::string part =
      row.latest.part == Part::subject ? "" : fmt::format(" ({})", to_string(row.latest.part));
  const Paint paint = paint_of(row);
  return {{text + part, paint},
          {bars(row.values, kMostBars)},
          {value_text(row.latest, row.latest.now)},
          {value_text(row.latest, row.latest.base)},
          {change_text(row), paint},
          {limit_text(row.latest)},
          {drift_text(row), paint}};
}

std::string span_text(std::span<const Report> reports) {
  const auto date = [](const Report& report) { return report.started_at.substr(0, 10); };
  const std::string first = date(reports.front()), last = date(reports.back());
  const std::string when = first.empty() || last.empty() ? "" : fmt::format(", {} to {}", first, last);
  return fmt::format("{} reports{}", reports.size(), when);
}

std::string commit_of(const Report& report) {
  const auto* const found = json_at(report.environment, "/build/git_revision");
  return found != nullptr && found->is_string() ? found->get<std::string>() : "unknown";
}

}  // namespace

std::string bars(const std::vector<std::optional<double>>& values, std::size_t width) {
  constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr double kFlat = 0.1;
  const auto shown = thinned(values, width);
  std::optional<double> least, most;
  for (const auto& value : shown) {
    if (!value) continue;
    least = std::min(least.value_or(*value), *value), most = std::max(most.value_or(*value), *value);
  }
  if (!least) return {};
  const double reach = std::max(*most - *least, kFlat * *least);
  std::string text;
  for (const auto& value : shown) {
    const double height = value && reach > 0 ? (*value - *least) / reach : 0;
    const auto bar = static_cast<std::size_t>(std::lround(height * static_cast<double>(kBars.size() - 1)));
    text += value ? std::string(kBars.at(bar)) : " ";
  }
  return text;
}

std::string history_table(const History& history, std::span<const Report> reports, Style style) {
  std::vector<const HistoryRow*> rows = pointers_to(history.rows);
  std::ranges::stable_partition(rows, [](const HistoryRow* row) { return is_marked(*row); });
  ComparedRows compared;
  for (const HistoryRow* row : rows) compared.push_back(&row->latest);
  const CaseTexts texts = case_texts(compared);
  Grid grid({{"case", Align::left},
             {"chart", Align::left, 1},
             {"latest", Align::right, 3},
             {"median", Align::right, 4},
             {"change"},
             {"limit", Align::right, 5},
             {"drift"}});
  for (std::size_t i = 0; i < rows.size(); ++i) grid.add(cells_of(*rows[i], texts.texts[i]));
  std::string text = painted(span_text(reports), Paint::bold, style) + "\n";
  if (!texts.common.empty()) text += paragraph(texts.common, 2, Paint::dim, style);
  text += grid.render(style) + "\n" + lines_of(kLegend, 2, Paint::dim, style);
  if (reports.size() < kShortestHistory)
    text +=
        lines_of(fmt::format("A drift takes {} reports or more.", kShortestHistory), 2, Paint::none, style);
  for (const std::string& note : history.comparison.notes) text += lines_of(note, 2, Paint::none, style);
  return text;
}

OtavaTable otava_table(const History& history, std::span<const Report> reports, const CaseIdOf& case_id_of) {
  OtavaTable table;
  std::vector<const HistoryRow*> whole;
  std::string header = "time,commit";
  for (const HistoryRow& row : history.rows) {
    const std::string name = case_id_of(row.latest.id);
    if (std::ranges::all_of(row.values, [](const auto& value) { return value.has_value(); })) {
      whole.push_back(&row);
      header += "," + text_cell(name);
    } else {
      table.left_out.push_back(name);
    }
  }
  if (whole.empty()) throw ReportError("no case has a value in each report, so there is no table for Otava");
  table.csv = header + "\r\n";
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].started_at.empty())
      throw ReportError(
          fmt::format("report {} does not say when it started (a CSV does not); JSON does", i + 1));
    table.csv += fmt::format("{},{}", text_cell(reports[i].started_at), text_cell(commit_of(reports[i])));
    for (const HistoryRow* row : whole) table.csv += "," + number_text(*row->values[i]);
    table.csv += "\r\n";
  }
  return table;
}

}  // namespace stbench::reports
