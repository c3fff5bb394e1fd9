/// A report's rows as a list with chosen columns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

/// Returns the case ID of a case.
using CaseIdOf = std::function<std::string(const Identity&)>;

/// All names that can be listed: `case` (the case ID), then the report's columns.
std::vector<std::string> listed_columns(const Report& report);

/// The names that are listed by default.
std::vector<std::string> usual_columns();

/// By the values of one column, numbers as numbers; rows without a value come last either way, equal ones
/// keep their order.
void sort_by(Report& report, const std::string& column, bool down, const CaseIdOf& case_id_of);

/// A table of those columns, as wide as it needs: a list is for pipes, too.
std::string listing(const Report& report, const std::vector<std::string>& columns, Style style,
                    const CaseIdOf& case_id_of);

}  // namespace stbench::reports
