/// The plan of the sharded suite.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/suite/suite.h"

namespace stbench {

/// The further axes of a case, and their defaults.
harness::AxisDefaults sharded_axes();

std::vector<std::string> sharded_engines();
std::vector<std::string> shardings();

/// Plans the options. Joins the ranks of a launcher, if it started this process.
/// @throws UsageError for what cannot be done as asked; speedtorch::GroupError
Plan plan_sharded(const Options& options, const harness::Machine& machine);

/// The rank that a launcher gave this process, if it started several and the options start none.
/// @throws UsageError if it started several and the options name ranks, too
std::optional<int> launched_rank(const Options& options);

/// The work of a process that a launcher started as another rank than 0.
void follow_rank_0(const Options& options);

}  // namespace stbench
