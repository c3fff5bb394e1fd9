/// The result of the tables, in sentences to quote.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

/// Two sentences: where to keep such a table here (the placement in
/// which `speedtorch` is fastest on the most cores, for `to` and `from`), and what our table in `hugepage`
/// gains against LibTorch's best in `libtorch`, split into kernel and pages. A gain is the median of the
/// rounds' ratios with its 95 % interval; of rows that were not measured in the same rounds, the ratio of the
/// medians, between the ends of both intervals. If the interval reaches 1, or a row is unstable, the
/// conclusion is "not decided". Of several workloads the first counts, on a device other than the CPU if
/// there is one. Empty where a report has no measured transfer by `speedtorch`.
std::vector<std::string> answer_sentences(const Report& report);

/// The same, each sentence on lines of its own.
std::string answer(const Report& report, Style style = Style::plain);

}  // namespace stbench::reports
