/// The plan that the library moves rows by (speedtorch/rows/host_plan.h), as runs and reports have it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reports/record.h"
#include "speedtorch/rows/host_plan.h"

namespace stbench {

/// The plan in use, for a report's environment: where it is from, and its entries.
nlohmann::ordered_json row_plan_environment();

/// Returns a sentence if the plans of two reports differ; an empty text if not, or if one has no plan.
std::string row_plan_difference(const reports::Report& base, const reports::Report& now);

/// Returns the value of SPEEDTORCH_PLAN with which another program moves rows as in the report. That is
/// `fixed` if the report has the defaults, because these are part of the code that is compared. Otherwise it
/// is `file`, to which the plan is written; only the version that reads it can check it. Empty if the report
/// has no plan, or if SPEEDTORCH_PLAN already says by which plan processes move rows.
std::string row_plan_to_hand_on(const reports::Report& report, const std::string& file);

/// Processes that are started while it lives have this value of SPEEDTORCH_PLAN. An empty one changes
/// nothing.
class HandedOnRowPlan {
 public:
  explicit HandedOnRowPlan(const std::string& value);
  ~HandedOnRowPlan();
  HandedOnRowPlan(const HandedOnRowPlan&) = delete;

 private:
  bool is_set_;
};

/// Processes that are started while it lives move rows by the plan of the first of the reports, or by their
/// own defaults if that has the defaults, unless SPEEDTORCH_PLAN already says by which. If this version
/// cannot use that plan, stderr says why.
class RowPlanOfBaseline {
 public:
  /// @throws reports::ReportError where the plan cannot be written to a temporary file
  explicit RowPlanOfBaseline(const std::vector<reports::Report>& reports);
  ~RowPlanOfBaseline();
  RowPlanOfBaseline(const RowPlanOfBaseline&) = delete;

 private:
  std::string path_;  ///< of the plan's file; empty if there is none
  std::optional<HandedOnRowPlan> handed_on_;
};

}  // namespace stbench
