/// A table for any suite without its own tables.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

/// The rows of one suite: a line with what is the same in all, then a column for each part of the identity
/// that varies, the measures, and the suite's plain columns. Columns that do not fit the screen are named
/// below.
std::string plain_table(const std::vector<const Record*>& rows, Style style);

}  // namespace stbench::reports
