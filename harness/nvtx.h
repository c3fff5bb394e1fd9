/// The time line of NVIDIA's profilers; harness/span.h is what uses it.
#pragma once

#include <string>

namespace stbench::harness {

/// True where the program was built with the NVTX header; without it a range is nothing.
bool has_nvtx();

/// True where a profiler looks at this process. Asked once: profilers attach at the first range of a process.
bool is_profiled();

/// Begins a range of the calling thread, and ends the last one that was begun.
void push_nvtx_range(const std::string& name);
void pop_nvtx_range();

}  // namespace stbench::harness
