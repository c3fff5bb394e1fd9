/// Two sides of reports, compared row by row (docs/compare.md).
///
/// Some variance is fixed for the lifetime of a process (memory layout, other load) and does not show in its
/// samples. So a row is faster or slower only if three conditions hold:
///
/// - The sides differ by ranks: over the samples of two single runs (Mann-Whitney, Holm over the rows), or,
///   without samples, by the intervals of the medians; over the processes if there are several.
///   Processes that took turns are compared in pairs (Wilcoxon) if that makes the limits narrower.
/// - The shift is at least the requested effect.
/// - The shift is at least the row's limit: as many processes of the same program exceed it, in any row,
///   in at most one of a hundred comparisons.
///
/// The limit comes from the spread between the processes of either side and of a calibration (spread.h). If
/// the spread is unknown, two single runs decide nothing below a factor of ten.
#pragma once

#include <span>

#include "reports/compare/calibrated_spreads.h"
#include "reports/compare/compared_case.h"
#include "reports/record.h"

namespace stbench::reports {

/// @param calibration of this machine, or null
/// @throws ReportError if a report has a case twice, or a side has no comparable case.
Comparison compare(std::span<const Report> base, std::span<const Report> now,
                   const ComparisonRules& rules = {}, const CalibratedSpreads* calibration = nullptr);

}  // namespace stbench::reports
