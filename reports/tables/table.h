/// A report as text for the screen.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"
#include "reports/tables/transfer_table.h"

namespace stbench::reports {

/// How the records of a suite are shown. A suite says it when it registers (benchmarks/suite/suite.h).
struct SuiteTables {
  std::function<std::string(const std::vector<const Record*>& rows, Style style)> tables;
  bool waived_too = false;  ///< the tables have rows for what was waived, too
  /// Rows that were just measured, as one table without a title.
  std::function<std::string(const std::vector<const Record*>& rows, Style style)> finished = finished_rows;
};

/// The tables of a suite by its name; plain ones (plain_table.h) for a suite that is not known.
using TablesOf = std::function<SuiteTables(const std::string& suite)>;

/// All of a report's cases, in lines as wide as the style says: the tables of each suite, then what was
/// waived with reason and cure, the warnings, and whether the run was interrupted. Parts without content do
/// not appear.
std::string render_tables(const Report& report, Style style, const TablesOf& tables_of);

}  // namespace stbench::reports
