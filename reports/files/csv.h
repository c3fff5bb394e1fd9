/// A report's cases as CSV: RFC 4180 with its CRLF line ends, one line of names, one record per case.
///
/// Columns: the fixed ones, the report's axes, then the union of the records' plain columns; a cell that does
/// not apply is empty. A text that a spreadsheet would run (=, +, -, @, a tab or a line end first) has an
/// apostrophe before it, which `from_csv` takes off again. A text that could be taken for a number, or that
/// is empty if null is possible, is quoted: other readers do not mind, and `from_csv` gives the same kind
/// of cell back. What is not a column (seed, argv, environment, samples, ...) is in the JSON only.
#pragma once

#include <string>
#include <string_view>

#include "reports/record.h"

namespace stbench::reports {

/// @throws ReportError if the report's column names are not distinct.
std::string to_csv(const Report& report);

/// Takes CRLF and LF line ends, a byte order mark, and the columns in any order. Of the columns that are not
/// fixed, the known axes become axes and the others plain columns; empty cells of both are left out.
/// @param name of the file, for messages.
/// @throws ReportError naming the file, line and column, and what would be right.
Report from_csv(std::string_view text, std::string_view name);

}  // namespace stbench::reports
