/// CSV text to cells: libcsv, with what it does not tell (lines, quotes) added.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace stbench::reports {

struct CsvCell {
  std::string text;
  bool quoted = false;
  std::size_t line = 0, column = 0;  ///< of the file, where the cell begins, both from 1; columns are bytes
};

struct CsvRow {
  std::size_t line = 0;  ///< on which the row begins
  std::vector<CsvCell> cells;
};

/// Hands over each row of the text, blank lines left out; a byte order mark is skipped, blanks are kept. A
/// row is not kept: 100 MB of commas would be gigabytes of cells.
/// @param name of the file, for messages.
/// @throws ReportError for a stray or missing quote and for a row of more than 1000 cells, with line and
///   column; and what `on_row` throws.
void read_csv_rows(std::string_view text, std::string_view name, const std::function<void(CsvRow)>& on_row);

}  // namespace stbench::reports
