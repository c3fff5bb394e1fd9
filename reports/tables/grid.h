/// A text table: cells in columns as wide as they need, together at most as wide as the screen.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

enum class Align { left, right };

struct Heading {
  std::string text;
  Align align = Align::right;
};

struct GridCell {
  std::string text;
  Paint paint = Paint::none;
};

/// The text of a number, marked if the row is unstable.
GridCell marked_cell(const Record& row, std::string_view text);
/// "2.5× faster" than what it is the ratio to; empty without a ratio.
GridCell ratio_cell(const std::optional<double>& ratio);

/// Rows below headings. If the columns together are wider than the screen, the widest is cut.
class Grid {
 public:
  /// @param margin blanks before each row
  /// @param width of the screen
  explicit Grid(std::vector<Heading> headings, std::size_t margin = 2, std::size_t width = kScreenWidth);

  /// A row with fewer cells than columns: the last cell runs on to the end of the line and widens no column.
  void add(std::vector<GridCell> cells);

  /// Headings and rows, each with a line end.
  [[nodiscard]] std::string render(Style style) const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;
  [[nodiscard]] std::string line(const std::vector<GridCell>& cells, const std::vector<std::size_t>& widths,
                                 Style style) const;
  [[nodiscard]] std::vector<GridCell> heading_cells() const;

  std::vector<Heading> headings_;
  std::size_t margin_, width_;
  std::vector<std::vector<GridCell>> rows_;
};

}  // namespace stbench::reports
