/// Checks that the threads of a run can be started.
#pragma once

#include <cstdint>

namespace stbench::harness {

/// Starts that many threads at once and ends them. libgomp ends the program if it cannot start its threads,
/// so this check comes before anything is measured.
/// @throws UsageError naming how many could be started, the system's reason and the cure
void require_threads(std::int64_t count);

}  // namespace stbench::harness
