/// The plan that the library moves rows by (speedtorch/rows/host_plan.h), as runs and reports have it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/record.h"
#include "speedtorch/rows/host_plan.h"

namespace stbench {

/// The plan in use, for a report's environment: where it is from, and its entries.
nlohmann::ordered_json row_plan_environment();

/// Returns a sentence if the plans of two reports differ; an empty text if not, or if one has no plan.
std::string row_plan_difference(const reports::Report& base, const reports::Report& now);

/// The plan of a report as the text of a plan file, which only the version that reads it can check. Empty if
/// the report has none, or if SPEEDTORCH_PLAN already says by which plan processes move rows.
std::string row_plan_to_hand_on(const reports::Report& report);

/// Processes that are started while it lives move rows by the plan in that file, or, if the path is empty, by
/// the plan that they would take anyway.
class HandedOnRowPlan {
 public:
  explicit HandedOnRowPlan(std::string path);
  ~HandedOnRowPlan();
  HandedOnRowPlan(const HandedOnRowPlan&) = delete;

 private:
  std::string path_;
};

/// Processes that are started while it lives move rows by the plan of the first of the reports, unless
/// SPEEDTORCH_PLAN already says by which. If this version cannot use that plan, stderr says why.
class RowPlanOfBaseline {
 public:
  /// @throws reports::ReportError where the plan cannot be written to a temporary file
  explicit RowPlanOfBaseline(const std::vector<reports::Report>& reports);
  ~RowPlanOfBaseline();
  RowPlanOfBaseline(const RowPlanOfBaseline&) = delete;

 private:
  std::string path_;  ///< empty if nothing was set
};

}  // namespace stbench
