/// Axes with few values that several suites have: every value, in the order of reports.
#pragma once

#include <string>
#include <vector>

namespace stbench::closed_axes {

/// Axes of suites that move rows; each suite says which it has.
std::vector<std::string> directions();
std::vector<std::string> placements();
std::vector<std::string> dtypes();
std::vector<std::string> index_dtypes();
/// `best`, and the instruction sets that the host kernels were compiled for and this machine has.
std::vector<std::string> isas();
std::vector<std::string> caches();

}  // namespace stbench::closed_axes
