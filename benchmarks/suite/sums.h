/// `sum`: the medians of `to` and `from` added, where both were asked for.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"

namespace stbench {

/// Adds the sums of a suite's records; of those that were waived none.
void add_sums(std::vector<reports::Record>& records, const std::string& suite);

}  // namespace stbench
