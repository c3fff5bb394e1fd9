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

/// How much a table needs a column. If columns do not fit, the one with the highest number is dropped first.
namespace need {
inline constexpr int asked = -1;  ///< shown even if all its cells are empty
inline constexpr int always = 0;
inline constexpr int little = 8;
inline constexpr int wide = 9;  ///< shown only on screens wider than kScreenWidth
}  // namespace need

struct Heading {
  std::string text;
  Align align = Align::right;
  int dropped = need::always;  ///< the order in which columns are left out
};

struct GridCell {
  std::string text;
  Paint paint = Paint::none;
};

/// The text of a number, marked if the row is unstable.
GridCell marked_cell(const Record& row, std::string_view text);
/// "2.5× faster" than what it is the ratio to; empty without a ratio.
GridCell ratio_cell(const std::optional<double>& ratio);

/// Rows below headings. A column without any text is not shown. If the columns together are wider than the
/// screen, those that may be dropped are, and then the widest is cut.
class Grid {
 public:
  /// @param margin blanks before each row
  explicit Grid(std::vector<Heading> headings, std::size_t margin = 2);

  /// A row with fewer cells than columns: the last cell runs on to the end of the line and widens no column.
  void add(std::vector<GridCell> cells);

  /// Headings and rows, each with a line end. In Markdown a table with all columns, between blank lines.
  [[nodiscard]] std::string render(Style style) const;

  /// The headings of the columns with text that render() leaves out for lack of room.
  [[nodiscard]] std::vector<std::string> left_out(Style style) const;

 private:
  /// The shown columns and their widths, cut to the screen.
  struct Columns {
    std::vector<std::size_t> shown;   ///< numbers of columns, ascending
    std::vector<std::size_t> widths;  ///< of all columns
  };

  [[nodiscard]] Columns columns(Style style) const;
  [[nodiscard]] bool is_full(const std::vector<GridCell>& row) const {
    return row.size() == headings_.size();
  }
  /// True for a column with text, for the first, and for one that was asked for.
  [[nodiscard]] bool is_wanted(std::size_t column, Style style) const;
  [[nodiscard]] std::size_t width_of(std::size_t column) const;
  [[nodiscard]] std::string line(const std::vector<GridCell>& cells, const Columns& columns,
                                 Style style) const;
  [[nodiscard]] std::string markdown(Style style) const;
  [[nodiscard]] std::vector<GridCell> heading_cells() const;

  std::vector<Heading> headings_;
  std::size_t margin_;
  std::vector<std::vector<GridCell>> rows_;
};

}  // namespace stbench::reports
