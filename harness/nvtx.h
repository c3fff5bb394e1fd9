/// Ranges on the time line of NVIDIA's profilers, for harness/span.h.
#pragma once

#include <string>

namespace stbench::harness {

/// True if the program was built with the NVTX header; without it a range is a no-op.
bool has_nvtx();

/// True if a profiler is attached. Checked once: profilers attach at the first range of a process.
bool is_profiled();

/// Begins a range of the calling thread; ends the latest one.
void push_nvtx_range(const std::string& name);
void pop_nvtx_range();

}  // namespace stbench::harness
