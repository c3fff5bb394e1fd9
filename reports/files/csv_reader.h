/// CSV text to cells: libcsv, plus line numbers and quotes.
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

/// Calls back with each row of the text; skips blank lines and a byte order mark, keeps blanks. Rows are not
/// stored: 100 MB of commas would be gigabytes of cells.
/// @param name of the file, for messages.
/// @throws ReportError for a stray or missing quote and for a row of more than 1000 cells, with line and
///   column; and what `on_row` throws.
void read_csv_rows(std::string_view text, std::string_view name, const std::function<void(CsvRow)>& on_row);

}  // namespace stbench::reports
