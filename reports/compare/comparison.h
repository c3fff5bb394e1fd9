/// Two sides of reports, compared row by row (docs/compare.md).
///
/// A process has luck that its own samples do not show: where its memory lies, what else ran. So a row is
/// faster or slower only where three things hold. The two sides differ by ranks: over the samples of two
/// single runs (Mann-Whitney, Holm over the rows), over the processes where there are several. The shift is
/// at least the effect asked for. And it is at least the row's limit: the shift that so many processes of the
/// same thing show, in any row, in at most one comparison of a hundred. The limit comes from the spread
/// between the processes of either side and of a calibration (spread.h); where nothing tells it, two single
/// runs decide nothing below a factor of ten.
#pragma once

#include <span>

#include "reports/compare/calibrated_spreads.h"
#include "reports/compare/compared_case.h"
#include "reports/record.h"

namespace stbench::reports {

/// @param calibration of this machine, or null
/// @throws ReportError where a report has the same case twice, or a side has none that can be compared.
Comparison compare(std::span<const Report> base, std::span<const Report> now,
                   const ComparisonRules& rules = {}, const CalibratedSpreads* calibration = nullptr);

}  // namespace stbench::reports
