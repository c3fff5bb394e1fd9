/// The plan of the memory suite: which allocators hold which tables in which placements, and what is waived.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/suite/options.h"
#include "benchmarks/tables/table_file.h"
#include "harness/case_id.h"
#include "harness/machine.h"
#include "reports/record.h"

namespace stbench {

struct MemoryPlan {
  std::vector<reports::Identity> cases;
  std::vector<reports::Record> waived;
  std::vector<std::string> warnings;
};

/// The further axis of the memory suite and its default: `touched`, the part of the table that is written.
const harness::AxisDefaults& memory_axes();

/// Plans the options. Without --rows, as many of SpeedTorch's 10,000,000 rows as the memory has room for.
/// @throws UsageError for what cannot be done as asked, before anything is allocated.
/// @param table of --table, whose shape the options have; null without one
MemoryPlan plan_memory(const Options& options, const harness::Machine& machine,
                       const TableFile* table = nullptr);

}  // namespace stbench
