/// A history as text for the terminal, and as a table for Apache Otava.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/compare/history.h"
#include "reports/style.h"
#include "reports/tables/listing.h"

namespace stbench::reports {

/// One line per case: a chart (the oldest left, slower higher), the latest value, the median of the earlier
/// ones, the change, its limit, and the drift over the series. Cases that changed or drift are marked and
/// come first.
std::string history_table(const History& history, std::span<const Report> reports, Style style);

/// Values as bars of eight heights, the lowest is the least; blank if there is none. If there are more
/// than `width` values, each bar is the median of neighbours. The heights span at least a tenth of the least
/// value, so that noise stays flat.
std::string bars(const std::vector<std::optional<double>>& values, std::size_t width);

/// A table for Apache Otava's CSV importer.
struct OtavaTable {
  std::string csv;  ///< columns time, commit, then one per case; one row per report, less is better
  std::vector<std::string>
      left_out;  ///< case IDs without a value in each report: Otava refuses an empty cell
};

/// @throws ReportError if a report does not say when it started, or no case has a value in each report
OtavaTable otava_table(const History& history, std::span<const Report> reports, const CaseIdOf& case_id_of);

}  // namespace stbench::reports
