/// A report small enough to check by hand, for the tests of the screen.
#pragma once

#include <cstdint>
#include <string>

#include "reports/record.h"

namespace stbench::reports {

/// A measured row of the seed's case (131,072 of 1,000,000 × 128 float32 rows, unique, int64) on cpu and 2
/// cores.
Record measured(const std::string& direction, const std::string& placement, const std::string& method,
                double seconds);

/// to and from; libtorch and hugepage; speedtorch, index_select, advanced, copy; cores 1 and 2; one row
/// unstable, one wrong, one failed, CUDA waived. derive() has been run.
Report sample_report();

/// The text without colour codes.
std::string without_colour(std::string text);

}  // namespace stbench::reports
