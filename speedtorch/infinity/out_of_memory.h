/// What counts as out of memory, and what is done about it first.
#pragma once

#include <c10/core/Device.h>

#include <exception>

namespace speedtorch::infinity {

/// True for c10::OutOfMemoryError, std::bad_alloc, speedtorch::MemoryError, and for the errors of LibTorch
/// and of CUDA's libraries that say in words only that memory could not be had.
bool is_out_of_memory(const std::exception& error);

/// Gives back what LibTorch's caching allocator holds of a GPU and nobody uses; nothing on a CPU, which
/// caches nothing.
void free_cached_memory(at::Device device);

/// Runs `work`; true where it ended, false where memory did not suffice. Other errors pass. What `work` held
/// is gone when this returns.
template <class Work>
bool had_memory_for(Work&& work) {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    return false;
  }
}

}  // namespace speedtorch::infinity
