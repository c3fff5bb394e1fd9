/// The plan by which rows move on the host: where it comes from, and how to choose another.
///
/// The first movement of a process takes, in this order: what use_host_plan() was given; what the environment
/// variable SPEEDTORCH_PLAN names (`fixed`: the defaults of the processor's family; else a file); what tune()
/// stored for this processor, number of cores and version of the library; the defaults. It never measures.
#pragma once

#include <string>

#include "speedtorch/first_plan.h"
#include "speedtorch/kernels/rows/plan.h"

namespace speedtorch {

using kernels::Plan;

struct HostPlan {
  Plan plan;
  /// In a few words, as in "defaults", "stored", "SPEEDTORCH_PLAN=fixed" or "the program's".
  std::string origin;
};

/// The plan in use. @throws RowPlanError if SPEEDTORCH_PLAN names a file that has none
HostPlan host_plan();

/// Later movements are planned by `plan`. @throws RowPlanError for numbers out of range
void use_host_plan(const Plan& plan, const std::string& origin = "the program's");

/// Later movements are planned by the defaults of the processor's family.
void use_default_plan();

/// @throws RowPlanError naming the file and what is wrong with it
Plan read_plan(const std::string& path);

/// Writes a file that read_plan() takes, whole or not at all. @throws FileError
void write_plan(const std::string& path, const Plan& plan);

/// The file that tune() stores its plan in: below XDG_CACHE_HOME or ~/.cache. Empty if there is neither.
std::string stored_plan_path();

}  // namespace speedtorch
