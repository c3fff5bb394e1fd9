#include "reports/tables/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace stbench::reports {
namespace {

constexpr std::size_t kBlanks = 2;  // blanks between columns

std::size_t total_of(const std::vector<std::size_t>& columns, const std::vector<std::size_t>& widths) {
  std::size_t total = columns.empty() ? 0 : kBlanks * (columns.size() - 1);
  for (const std::size_t column : columns) total += widths[column];
  return total;
}

/// Cuts the widest column until all fit.
void cut(const std::vector<std::size_t>& columns, std::vector<std::size_t>& widths, std::size_t available) {
  constexpr std::size_t kNarrowest = 4;
  while (total_of(columns, widths) > available) {
    const auto widest =
        *std::ranges::max_element(columns, {}, [&](std::size_t column) { return widths[column]; });
    if (widths[widest] <= kNarrowest) return;
    --widths[widest];
  }
}

}  // namespace

GridCell marked_cell(const Record& row, std::string_view text) {
  if (row.status == Status::unstable) return {fmt::format("~{}", text), Paint::doubtful};
  return {std::string(text)};
}

GridCell ratio_cell(const std::optional<double>& ratio) {
  if (!ratio) return {};
  return {faster_text(*ratio), *ratio >= 1 ? Paint::good : Paint::bad};
}

Grid::Grid(std::vector<Heading> headings, std::size_t margin)
    : headings_(std::move(headings)), margin_(margin) {}

void Grid::add(std::vector<GridCell> cells) {
  for (GridCell& cell : cells) cell.text = trimmed(one_line(cell.text));
  rows_.push_back(std::move(cells));
}

std::vector<GridCell> Grid::heading_cells() const {
  std::vector<GridCell> cells;
  for (const Heading& heading : headings_) cells.push_back({heading.text, Paint::dim});
  return cells;
}

bool Grid::is_wanted(std::size_t column, Style style) const {
  return column == 0 || rows_.empty() || headings_[column].dropped == need::asked ||
         std::ranges::any_of(rows_, [&](const auto& row) {
           // In text the last cell of a short row belongs to no column.
           const std::size_t bound = row.size() - (is_full(row) || style.markdown ? 0 : 1);
           return column < bound && !row[column].text.empty();
         });
}

std::size_t Grid::width_of(std::size_t column) const {
  std::size_t width = display_width(headings_[column].text);
  for (const auto& row : rows_) {
    const std::size_t bound = is_full(row) ? row.size() : row.size() - 1;
    if (column < bound) width = std::max(width, display_width(row[column].text));
  }
  return width;
}

Grid::Columns Grid::columns(Style style) const {
  Columns columns;
  const std::size_t available = style.width - std::min(style.width, margin_);
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    columns.widths.push_back(width_of(i));
    const bool room = headings_[i].dropped != need::wide || style.width > kScreenWidth;
    if (is_wanted(i, style) && room) columns.shown.push_back(i);
  }
  while (total_of(columns.shown, columns.widths) > available) {
    auto least = columns.shown.begin();  // needed, the last of them
    for (auto it = least; it != columns.shown.end(); ++it)
      if (headings_[*it].dropped >= headings_[*least].dropped) least = it;
    if (headings_[*least].dropped <= need::always) break;
    columns.shown.erase(least);
  }
  cut(columns.shown, columns.widths, available);
  return columns;
}

std::string Grid::line(const std::vector<GridCell>& cells, const Columns& columns, Style style) const {
  std::string text;
  std::size_t blanks = margin_;  // owed, so that no line ends in them
  std::size_t begin = margin_;   // of the cell
  const auto write = [&](const GridCell& cell, std::size_t width, bool to_the_right) {
    const std::string shown = shortened(cell.text, width);
    const std::size_t padding = width - display_width(shown);
    const std::size_t before = to_the_right ? padding : 0;
    blanks += before;
    if (!shown.empty())
      text += std::string(std::exchange(blanks, 0), ' ') + painted(shown, cell.paint, style);
    blanks += padding - before + kBlanks;
    begin += width + kBlanks;
  };
  const std::size_t bound = is_full(cells) ? cells.size() : cells.size() - 1;
  for (const std::size_t column : columns.shown) {
    if (column < bound) write(cells[column], columns.widths[column], headings_[column].align == Align::right);
  }
  if (bound < cells.size()) write(cells.back(), style.width - std::min(style.width, begin), false);
  return text + "\n";
}

std::string Grid::markdown(Style style) const {
  std::string text = "\n";
  const auto add = [&](std::vector<GridCell> cells) {
    cells.resize(headings_.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (is_wanted(i, style)) text += "| " + painted(cells[i].text, cells[i].paint, style) + " ";
    }
    text += "|\n";
  };
  add(heading_cells());
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    if (is_wanted(i, style)) text += headings_[i].align == Align::right ? "|--:" : "|---";
  }
  text += "|\n";
  for (const auto& row : rows_) add(row);
  return text + "\n";
}

std::string Grid::render(Style style) const {
  if (style.markdown) return markdown(style);
  const Columns shown = columns(style);
  std::string text = line(heading_cells(), shown, style);
  for (const auto& row : rows_) text += line(row, shown, style);
  return text;
}

std::vector<std::string> Grid::left_out(Style style) const {
  std::vector<std::string> names;
  if (style.markdown) return names;
  const auto shown = columns(style).shown;
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    const bool wanted = headings_[i].dropped != need::wide && is_wanted(i, style);
    if (wanted && std::ranges::find(shown, i) == shown.end()) names.push_back(headings_[i].text);
  }
  return names;
}

}  // namespace stbench::reports
