/// The result of the tables, in sentences to quote.
#pragma once

#include <string>

#include "reports/record.h"

namespace stbench::reports {

/// Two sentences, each on lines of at most 100 columns: where to keep such a table here (the placement in
/// which `speedtorch` is fastest on the most cores, for `to`, `from` and `sum`), and what our table in
/// `hugepage` gains against LibTorch's best in `libtorch` (ratio of medians; the 95 % interval is that of the
/// rounds' ratios, where both rows have as many rounds). Of several workloads the first counts, on a device
/// other than the CPU if there is one. Empty where a report has no measured transfer by `speedtorch`.
std::string answer(const Report& report);

}  // namespace stbench::reports
