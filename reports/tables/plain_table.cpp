#include "reports/tables/plain_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reports/columns.h"
#include "reports/group.h"
#include "reports/tables/grid.h"
#include "reports/tables/notes.h"
#include "reports/tables/time_unit.h"

namespace stbench::reports {
namespace {

/// A column of the table: one cell per row.
struct Strip {
  Heading heading;
  std::vector<std::string> cells;

  [[nodiscard]] std::size_t width() const {
    std::size_t width = display_width(heading.text);
    for (const std::string& cell : cells) width = std::max(width, display_width(cell));
    return width;
  }
  [[nodiscard]] bool is_empty() const { return std::ranges::all_of(cells, &std::string::empty); }
  [[nodiscard]] bool is_constant() const {
    return std::ranges::count(cells, cells.front()) == std::ssize(cells);
  }
};

std::string number_cell(const Value& value) {
  constexpr int kDigits = 4;
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) return grouped(*integer);
  if (const auto* const real = std::get_if<double>(&value)) return significant(*real, kDigits);
  return one_line(cell_text(value));
}

template <typename CellOf>
Strip strip(std::string_view name, const Rows& rows, CellOf cell_of_row) {
  Strip result{{std::string(name)}, {}};
  for (const Record* row : rows) {
    const Value value = cell_of_row(*row);
    if (std::holds_alternative<std::string>(value)) result.heading.align = Align::left;
    result.cells.push_back(number_cell(value));
  }
  return result;
}

/// One strip for each name that any of the rows has there.
std::vector<Strip> further_strips(const Rows& rows, const Columns& (*part)(const Record&)) {
  std::vector<std::string> names;
  for (const Record* row : rows) {
    for (const auto& [name, value] : part(*row)) add_once(names, name);
  }
  std::vector<Strip> strips;
  strips.reserve(names.size());
  for (const std::string& name : names) {
    strips.push_back(strip(name, rows, [&](const Record& row) { return cell_of(part(row), name); }));
  }
  return strips;
}

std::vector<Strip> identity_strips(const Rows& rows) {
  std::vector<Strip> strips;
  for (const Column& column : identity_columns()) {
    if (column.name != "suite") strips.push_back(strip(column.name, rows, column.get));
  }
  const auto axes = further_strips(rows, [](const Record& row) -> const Columns& { return row.id.axes; });
  strips.insert(strips.end(), axes.begin(), axes.end());
  return strips;
}

Value marked_median(const Record& row, const TimeUnit& unit) {
  if (!has_numbers(row.status)) return std::string(to_string(row.status));
  if (!row.median_s) return {};
  return fmt::format("{}{}", row.status == Status::unstable ? "~" : "", unit.text(*row.median_s));
}

std::vector<Strip> measure_strips(const Rows& rows) {
  constexpr std::array<std::string_view, 5> kMeasures = {"gb_per_s", "copy_fraction", "speedup",
                                                         "verified_rows", "payload_bytes"};
  const TimeUnit unit = time_unit(rows);
  std::vector<Strip> strips = {
      strip(unit.name, rows, [&](const Record& row) { return marked_median(row, unit); })};
  strips.front().heading.align = Align::right;
  for (const std::string_view name : kMeasures) {
    strips.push_back(strip(name, rows, fixed_column(name)->get));
  }
  const auto plain = further_strips(rows, [](const Record& row) -> const Columns& { return row.more; });
  strips.insert(strips.begin() + 1, plain.begin(), plain.end());
  return strips;
}

/// As many strips as the screen is wide, and the names of the others.
struct Choice {
  std::vector<Strip> shown;
  std::vector<std::string> left_out;
};

Choice fitting(std::vector<Strip> strips, Style style) {
  constexpr std::size_t kGap = 2;
  Choice choice;
  std::size_t used = 0;
  for (Strip& candidate : strips) {
    const std::size_t width = candidate.width() + kGap;
    if (used + width <= style.width || style.markdown || choice.shown.empty()) {
      used += width;
      choice.shown.push_back(std::move(candidate));
    } else {
      choice.left_out.push_back(candidate.heading.text);
    }
  }
  return choice;
}

std::string grid_of(const std::vector<Strip>& strips, std::size_t rows, Style style) {
  std::vector<Heading> headings;
  headings.reserve(strips.size());
  for (const Strip& shown : strips) headings.push_back(shown.heading);
  Grid grid(std::move(headings));
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<GridCell> cells;
    cells.reserve(strips.size());
    for (const Strip& shown : strips) cells.push_back({shown.cells[row]});
    grid.add(std::move(cells));
  }
  return grid.render(style);
}

}  // namespace

std::string plain_table(const Rows& rows, Style style) {
  std::vector<std::string> same;
  std::vector<Strip> varying;
  for (Strip& part : identity_strips(rows)) {
    if (!part.is_constant() || rows.size() == 1) {
      if (!part.is_empty()) varying.push_back(std::move(part));
    } else if (!part.is_empty() && part.cells.front() != "0") {
      same.push_back(fmt::format("{} {}", part.heading.text, part.cells.front()));
    }
  }
  for (Strip& measure : measure_strips(rows)) {
    if (!measure.is_empty()) varying.push_back(std::move(measure));
  }
  const Choice choice = fitting(std::move(varying), style);
  std::string text =
      painted(trimmed(shortened(one_line(rows.front()->id.suite), style.width)), Paint::bold, style) + "\n";
  if (!same.empty()) text += paragraph(fmt::format("{}", fmt::join(same, ", ")), 2, Paint::none, style);
  text += grid_of(choice.shown, rows.size(), style);
  if (!choice.left_out.empty()) {
    text += paragraph(fmt::format("also in the report: {}", fmt::join(choice.left_out, ", ")), 4, Paint::dim,
                      style);
  }
  return text + reason_lines(rows, style);
}

}  // namespace stbench::reports
