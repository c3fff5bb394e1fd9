/// The tables of the suites that time a step.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/statistics/role.h"
#include "reports/style.h"

namespace stbench::reports {

/// A table a workload and direction as the transfer suite has (transfer_table.h); below them, of a suite that
/// trains, words a second and what was learned.
std::string step_tables(const std::vector<const Record*>& rows, Style style);

}  // namespace stbench::reports
