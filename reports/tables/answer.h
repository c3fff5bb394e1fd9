/// The result of the tables, in sentences to quote.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

/// Two sentences. The first names the placement for such a table, in which `speedtorch` is fastest on the
/// most cores, for `to` and `from`. The second says what our table in `hugepage` gains against LibTorch's
/// best in `libtorch`, split into kernel and pages. A gain is the median of the rounds' ratios with its 95 %
/// interval. If rows were not measured in the same rounds, it is the ratio of the medians, between the ends
/// of both intervals. If the interval reaches 1, or a row is unstable, the conclusion is "not decided".
/// Counts the first of several workloads, on a device other than the CPU if there is one. Empty if a report
/// has no measured transfer by `speedtorch`.
std::vector<std::string> answer_sentences(const Report& report);

/// The same, each sentence on separate lines.
std::string answer(const Report& report, Style style = Style::plain);

}  // namespace stbench::reports
