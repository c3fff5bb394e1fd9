/// The second table of SpeedTorch's README, for the rows of a memory suite: what holding a table costs.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

/// One table per shape (dtype, rows, dim), in GiB. Columns: the process's host and GPU memory, each beside
/// the figure of SpeedTorch's README for that kind of tensor; the table's part of it, over the requested
/// bytes; the process before, at its peak and after; the page tables. Waived rows appear if the README has a
/// figure for them.
std::string memory_tables(const std::vector<const Record*>& rows, Style style);

/// The rows of cases that were just measured, as one table without a title.
std::string finished_memory_rows(const std::vector<const Record*>& rows, Style style);

}  // namespace stbench::reports
