/// The second table of SpeedTorch's README, for the rows of a memory suite: what holding a table costs.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

/// A table a shape (dtype, rows, dim), in GiB: what the process that holds it takes of the host's and the
/// GPU's memory, beside each the figure of SpeedTorch's README for that kind of tensor; what of it the table
/// is, over what was asked for; the process before, at its peak and after; the page tables. Waived rows are
/// shown where the README has a figure for them.
std::string memory_tables(const std::vector<const Record*>& rows, Style style);

}  // namespace stbench::reports
