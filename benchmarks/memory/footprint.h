/// One case of the memory suite: a process that holds a table, looked at from outside.
#pragma once

#include <functional>
#include <vector>

#include "benchmarks/suite/options.h"
#include "harness/machine.h"
#include "reports/record.h"

namespace stbench {

/// How the processes are started and waited for.
struct FootprintTerms {
  std::uint64_t seed = 1;
  double timeout_s = 0;   ///< for each answer; 0 = none
  std::vector<int> cpus;  ///< of their threads
  std::function<bool()> stop = [] { return false; };
};

/// Starts a process, lets it hold the case's table, and reads what the process takes: before it allocates,
/// while it holds, and after it freed. A process that cannot, ends, hangs or is killed is a `failed` record
/// with the reason; one whose table is not what it should be a `wrong` one.
reports::Record measure_footprint(const reports::Identity& id, const FootprintTerms& terms);

/// The plain columns of the memory suite, all empty.
reports::Columns empty_memory_columns();

}  // namespace stbench
