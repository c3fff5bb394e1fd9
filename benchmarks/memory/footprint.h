/// One case of the memory suite: the footprint of a process that holds a table, measured from outside.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/suite/options.h"
#include "reports/record.h"

namespace stbench {

/// How processes are started and waited for.
struct FootprintTerms {
  std::uint64_t seed = 1;
  double timeout_s = 0;   ///< for each answer; 0 = none
  std::vector<int> cpus;  ///< of their threads
  std::string table;      ///< of --table; empty without one
  std::function<bool()> stop = [] { return false; };
};

/// Starts a process that holds the case's table, and reads its memory before it allocates, while it holds the
/// table, and after it freed it. The record is `failed` with the reason if the process cannot allocate, ends,
/// hangs or is killed, and `wrong` if its table has wrong bytes.
reports::Record measure_footprint(const reports::Identity& id, const FootprintTerms& terms);

/// The plain columns of the memory suite, all empty.
reports::Columns empty_memory_columns();

}  // namespace stbench
