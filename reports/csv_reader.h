/// CSV text to cells: libcsv, with what it does not tell (lines, quotes) added.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stbench::reports {

struct CsvCell {
  std::string text;
  bool quoted = false;
};

struct CsvRow {
  std::size_t line = 0;  ///< of the file, on which the row begins; the first is 1
  std::vector<CsvCell> cells;
};

/// All rows of the text, blank lines left out; a byte order mark is skipped, blanks are kept.
/// @param name of the file, for messages.
/// @throws ReportError for a stray or missing quote, with the line.
std::vector<CsvRow> csv_rows(std::string_view text, std::string_view name);

}  // namespace stbench::reports
