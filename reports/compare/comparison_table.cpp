#include "reports/compare/comparison_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "reports/compare/compared_texts.h"
#include "reports/group.h"
#include "reports/statistics/statistics.h"
#include "reports/tables/grid.h"
#include "reports/tables/notes.h"

namespace stbench::reports {
namespace {

constexpr std::array kOrder = {Verdict::now_wrong, Verdict::slower,     Verdict::missing, Verdict::faster,
                               Verdict::added,     Verdict::unresolved, Verdict::same};
constexpr std::size_t kFewUnresolved = 10;

ComparedRows rows_of(const Comparison& comparison, Verdict verdict) {
  ComparedRows rows = those(pointers_to(comparison.cases),
                            [&](const ComparedCase& compared) { return compared.verdict == verdict; });
  std::ranges::stable_sort(rows, std::greater(), [](const ComparedCase* compared) {
    return std::abs(std::log1p(compared->change.value_or(0)));
  });
  return rows;
}

// ---- cells

std::string interval_text(const ComparedCase& compared) {
  if (!compared.low || !compared.high) return std::string(kNoNumber);
  return fmt::format("{} to {}", percent(*compared.low), percent(*compared.high));
}

std::string needs_text(const ComparedCase& compared) {
  if (compared.needs_samples) return fmt::format("{} samples", *compared.needs_samples);
  if (compared.needs_runs) return fmt::format("{} runs", *compared.needs_runs);
  return compared.verdict == Verdict::unresolved ? "more runs" : "";
}

Paint paint_of(Verdict verdict) {
  if (verdict == Verdict::slower || verdict == Verdict::now_wrong || verdict == Verdict::missing)
    return Paint::bad;
  if (verdict == Verdict::faster) return Paint::good;
  return verdict == Verdict::unresolved ? Paint::doubtful : Paint::none;
}

// ---- parts common to both outputs

/// How much a case must change to be told from none, if that is known.
std::string limits_text(const Comparison& comparison) {
  std::vector<double> limits;
  for (const ComparedCase& compared : comparison.cases) {
    if (compared.limit) limits.push_back(*compared.limit);
  }
  return limits.empty() ? "" : "; the middle limit is " + factor_or_percent(median(limits));
}

/// "same within ±17%": the widest limit of the rows that are the same; other verdicts as they are.
std::string verdict_text(const Comparison& comparison, Verdict verdict) {
  double widest = 0;
  for (const ComparedCase& compared : comparison.cases) {
    if (compared.verdict == verdict) widest = std::max(widest, compared.limit.value_or(0));
  }
  return verdict == Verdict::same && widest > 0
             ? fmt::format("same within ±{}%", significant(100 * widest, 2))
             : std::string(to_string(verdict));
}

std::string summary(const Comparison& comparison, const ComparisonView& view) {
  std::vector<std::string> counts;
  for (const Verdict verdict : kOrder) {
    if (const auto rows = count(comparison, verdict); rows > 0 || verdict == Verdict::slower) {
      counts.push_back(fmt::format("{} {}", rows, verdict_text(comparison, verdict)));
    }
  }
  return fmt::format("{} cases: {} (from {:g}% on{})", comparison.cases.size(), fmt::join(counts, ", "),
                     100 * view.effect, limits_text(comparison));
}

/// The rows to print of a verdict, and how many are left out.
std::pair<ComparedRows, std::size_t> chosen(const Comparison& comparison, Verdict verdict,
                                            const ComparisonView& view) {
  ComparedRows rows = rows_of(comparison, verdict);
  std::size_t most = rows.size();
  if (!view.all && verdict == Verdict::same) most = 0;
  if (!view.all && verdict == Verdict::unresolved) most = std::min(most, kFewUnresolved);
  const std::size_t left_out = rows.size() - most;
  rows.resize(most);
  return {rows, left_out};
}

/// The order in which a narrow screen loses the columns (grid.h). The interval and the limit, which decide,
/// stay longer than the two times.
constexpr std::array kDropped = {0, 4, 3, 0, 1, 2, 5};

std::vector<std::string> headings() {
  return {"case", "BASE", "NEW", "change", "95 % interval", "limit", "needs"};
}

std::vector<std::string> cells(const ComparedCase& compared, const std::string& text) {
  if (!compared.change) {
    return {text, value_text(compared, compared.base), value_text(compared, compared.now),
            one_line(compared.note)};
  }
  const std::string part =
      compared.part == Part::subject ? std::string() : fmt::format(" ({})", to_string(compared.part));
  return {text + part,
          value_text(compared, compared.base),
          value_text(compared, compared.now),
          percent(*compared.change),
          interval_text(compared),
          limit_text(compared),
          needs_text(compared)};
}

std::string left_out_text(Verdict verdict, std::size_t rows) {
  return fmt::format("{} {} {}; --all shows them", rows, rows == 1 ? "row is" : "rows are",
                     to_string(verdict));
}

constexpr std::string_view kVerdictLegend =
    "BASE and NEW are shares of the ceiling if the case has one, else times. A case is slower or faster from "
    "its "
    "limit on: the effect asked for, or what runs of the same thing differ by if that is more. Ceilings and "
    "controls never count as slower.";

}  // namespace

std::string comparison_table(const Comparison& comparison, const ComparisonView& view, Style style) {
  std::string text;
  if (!view.conclusion.empty()) text += lines_of(view.conclusion, 0, view.paint, style);
  text += painted(summary(comparison, view), Paint::bold, style) + "\n";
  for (const Verdict verdict : kOrder) {
    const auto [rows, left_out] = chosen(comparison, verdict, view);
    if (!rows.empty()) {
      const CaseTexts texts = case_texts(rows);
      text += "\n" + painted(verdict_text(comparison, verdict), paint_of(verdict), style) + "\n";
      if (!texts.common.empty()) text += paragraph(texts.common, 2, Paint::dim, style);
      std::vector<Heading> columns;
      for (const std::string& name : headings())
        columns.push_back({name, columns.empty() ? Align::left : Align::right, kDropped.at(columns.size())});
      Grid grid(std::move(columns));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        std::vector<GridCell> row;
        for (const std::string& cell : cells(*rows[i], texts.texts[i])) row.push_back({cell});
        grid.add(std::move(row));
      }
      text += grid.render(style);
    }
    if (left_out > 0) text += paragraph(left_out_text(verdict, left_out), 2, Paint::dim, style);
  }
  text += "\n" + lines_of(kVerdictLegend, 2, Paint::dim, style);
  for (const std::string& note : comparison.notes) text += lines_of(note, 2, Paint::none, style);
  return text;
}

namespace {

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

/// A text as code, where nothing is markup. Only a table's bar needs its backslash there, too.
std::string markdown_code(const std::string& text) {
  std::string safe = one_line(text);
  replace_all(safe, "`", "'");
  replace_all(safe, "\\", "/");
  replace_all(safe, "|", "\\|");
  return safe.empty() ? safe : fmt::format("`{}`", safe);
}

std::vector<std::string> markdown_cells(const ComparedCase& compared, const std::string& text) {
  const std::string part =
      compared.part == Part::subject ? std::string() : fmt::format(" ({})", to_string(compared.part));
  const std::string name = markdown_code(text) + part;
  if (!compared.change) return {name, escaped_markdown(compared.note)};
  return {name, percent(*compared.change), interval_text(compared), limit_text(compared),
          needs_text(compared)};
}

std::string markdown_line(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

/// The rows of a verdict that have a change, or those that have none. A last column without any text is left
/// out.
std::string markdown_rows(const ComparedRows& rows, const CaseTexts& texts, bool with_change) {
  std::vector<std::vector<std::string>> lines;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]->change.has_value() == with_change) lines.push_back(markdown_cells(*rows[i], texts.texts[i]));
  }
  if (lines.empty()) return {};
  std::vector<std::string> head = {"case", "why"}, rule = {"---", "---"};
  if (with_change) {
    head = {"case", "change", "95 % interval", "limit", "needs"}, rule = {"---", "--:", "--:", "--:", "--:"};
  }
  const bool is_short = std::ranges::all_of(lines, [](const auto& cells) { return cells.back().empty(); });
  if (is_short) head.pop_back(), rule.pop_back();
  std::string table = "\n" + markdown_line(head) + fmt::format("|{}|\n", fmt::join(rule, "|"));
  for (auto& cells : lines) {
    cells.resize(head.size());
    table += markdown_line(cells);
  }
  return table;
}

constexpr std::string_view kMarkdownLegend =
    "A change is the median of NEW over BASE, over all pairs of their processes: of the times over the "
    "ceiling's "
    "if the case has a ceiling, else of the times. A case is slower or faster from its limit on: the effect "
    "asked "
    "for, or what runs of the same thing differ by if that is more. Ceilings and controls never count as "
    "slower.";

}  // namespace

std::string comparison_markdown(const Comparison& comparison, const ComparisonView& view) {
  std::string text;
  if (!view.word.empty()) text += fmt::format("### {}\n\n", escaped_markdown(view.word));
  if (!view.conclusion.empty()) text += escaped_markdown(view.conclusion) + "\n\n";
  for (const std::string& line : view.about) text += fmt::format("- {}\n", escaped_markdown(line));
  text += (view.about.empty() ? "" : "\n") + escaped_markdown(summary(comparison, view)) + "\n";
  for (const Verdict verdict : kOrder) {
    const auto [rows, left_out] = chosen(comparison, verdict, view);
    if (!rows.empty()) {
      const CaseTexts texts = case_texts(rows);
      text += fmt::format("\n#### {}\n\n", verdict_text(comparison, verdict));
      if (!texts.common.empty()) text += markdown_code(texts.common) + "\n";
      text += markdown_rows(rows, texts, true) + markdown_rows(rows, texts, false);
    }
    if (left_out > 0) text += fmt::format("\n{}\n", left_out_text(verdict, left_out));
  }
  text += fmt::format("\n{}\n", kMarkdownLegend);
  for (const std::string& note : comparison.notes) text += fmt::format("\n{}\n", escaped_markdown(note));
  return text;
}

}  // namespace stbench::reports
