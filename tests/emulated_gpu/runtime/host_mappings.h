// The mappings of the process, as the kernel lists them.
#pragma once
#include <cstdint>
#include <string>

namespace emulated_gpu {

/// Returns why host memory [begin, end) cannot be registered (a part is not mapped, or not readable, or not
/// writable though `writable` is asked for), or nothing.
std::string host_memory_problem(std::uint64_t begin, std::uint64_t end, bool writable);

}  // namespace emulated_gpu
