#include "reports/tables/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace stbench::reports {
namespace {

constexpr std::size_t kBlanks = 2;  // blanks between columns

/// Cuts the widest column until all fit.
void fit(std::vector<std::size_t>& widths, std::size_t available) {
  constexpr std::size_t kNarrowest = 4;
  const auto total = [&] {
    return std::accumulate(widths.begin(), widths.end(), kBlanks * (widths.size() - 1));
  };
  while (total() > available) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= kNarrowest) return;
    --*widest;
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

Grid::Grid(std::vector<Heading> headings, std::size_t margin, std::size_t width)
    : headings_(std::move(headings)), margin_(margin), width_(width) {}

void Grid::add(std::vector<GridCell> cells) {
  for (GridCell& cell : cells) cell.text = trimmed(one_line(cell.text));
  rows_.push_back(std::move(cells));
}

std::vector<GridCell> Grid::heading_cells() const {
  std::vector<GridCell> cells;
  for (const Heading& heading : headings_) cells.push_back({heading.text, Paint::dim});
  return cells;
}

std::vector<std::size_t> Grid::widths() const {
  std::vector<std::size_t> widths;
  for (const Heading& heading : headings_) widths.push_back(display_width(heading.text));
  for (const auto& row : rows_) {
    const std::size_t bound = row.size() == headings_.size() ? row.size() : row.size() - 1;
    for (std::size_t i = 0; i < bound; ++i) widths[i] = std::max(widths[i], display_width(row[i].text));
  }
  fit(widths, width_ - margin_);
  return widths;
}

std::string Grid::line(const std::vector<GridCell>& cells, const std::vector<std::size_t>& widths,
                       Style style) const {
  std::string text;
  std::size_t blanks = margin_;  // owed, so that no line ends in them
  std::size_t begin = margin_;   // of the cell
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool runs_on = i + 1 == cells.size() && cells.size() < headings_.size();
    const std::size_t width = runs_on ? width_ - begin : widths[i];
    const std::string shown = shortened(cells[i].text, width);
    const std::size_t padding = width - display_width(shown);
    const std::size_t before = headings_[i].align == Align::right && !runs_on ? padding : 0;
    blanks += before;
    if (!shown.empty()) {
      text += std::string(std::exchange(blanks, 0), ' ') + painted(shown, cells[i].paint, style);
    }
    blanks += padding - before + kBlanks;
    begin += width + kBlanks;
  }
  return text + "\n";
}

std::string Grid::render(Style style) const {
  const std::vector<std::size_t> columns = widths();
  std::string text = line(heading_cells(), columns, style);
  for (const auto& row : rows_) text += line(row, columns, style);
  return text;
}

}  // namespace stbench::reports
