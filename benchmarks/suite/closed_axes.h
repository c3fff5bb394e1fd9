/// Axes with few values that several suites have: every value, in the order of reports.
#pragma once

#include <string>
#include <vector>

namespace stbench::closed_axes {

/// Axes of suites that move rows; each suite says which it has.
const std::vector<std::string>& directions();
const std::vector<std::string>& placements();
const std::vector<std::string>& dtypes();
const std::vector<std::string>& index_dtypes();
/// `best`, and the instruction sets that the host kernels were compiled for and this machine has.
const std::vector<std::string>& isas();
const std::vector<std::string>& caches();

}  // namespace stbench::closed_axes
