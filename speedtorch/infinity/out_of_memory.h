/// Recognises out-of-memory errors and frees cached memory.
#pragma once

#include <c10/core/Device.h>

#include <exception>

namespace speedtorch::infinity {

/// True for c10::OutOfMemoryError, std::bad_alloc, speedtorch::MemoryError, and for errors of LibTorch and of
/// CUDA's libraries whose text says that memory ran out.
bool is_out_of_memory(const std::exception& error);

/// Frees the unused blocks of LibTorch's caching allocator if `device` is a GPU. A no-op for a CPU, which
/// caches nothing.
void free_cached_memory(at::Device device);

/// Runs `work`. Returns false if it ran out of memory; rethrows other errors. Everything that `work` held is
/// released when this returns.
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
