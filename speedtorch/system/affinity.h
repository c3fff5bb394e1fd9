/// The CPUs on which a thread may run.
#pragma once

#include <span>

namespace speedtorch {

/// Lets the calling thread run on these CPUs only. Threads and processes that it starts later inherit them.
/// @return false if the system refuses
bool pin_this_thread(std::span<const int> cpus);

}  // namespace speedtorch
