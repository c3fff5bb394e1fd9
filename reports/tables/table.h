/// A report as text for the screen.
#pragma once

#include <string>

#include "reports/record.h"
#include "reports/style.h"
#include "reports/tables/answer.h"

namespace stbench::reports {

/// All of a report's cases, lines of at most 100 columns: the transfer tables (transfer_table.h), the
/// memory table (memory_table.h), a plain table for each other suite (plain_table.h), then what was waived
/// with reason and cure, the warnings, and whether the run was interrupted. What is empty does not appear.
std::string render_tables(const Report& report, Style style);

}  // namespace stbench::reports
