// Lets host functions run although nothing waits for their stream.
#pragma once
#include "tests/emulated_gpu/runtime/work.h"

namespace emulated_gpu {

/// Runs the work a little later unless something has. A program may wait for a host function by its own
/// means, such as a condition variable, which lazy streams do not see. Null (work that was captured) is
/// ignored.
void watch_host_function(const WorkPointer& work);

}  // namespace emulated_gpu
