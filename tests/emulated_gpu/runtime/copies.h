// Copies and fills, on a stream or as the synchronous functions make them.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "tests/emulated_gpu/runtime/runtime.h"

namespace emulated_gpu {

struct Rectangle {
  std::size_t to_pitch = 0, from_pitch = 0, width = 0, height = 1;  ///< bytes, and rows
};

/// Queues a copy on a stream. It waits only where CUDA promises that the call does: a copy to pageable
/// memory, or within the host. The bytes of pageable memory are read at the call.
cudaError_t copy_async(Runtime& all, Lock& lock, void* to, const void* from, const Rectangle& size,
                       cudaMemcpyKind kind, cudaStream_t stream, const char* name);

/// Copies on the legacy default stream and waits, except within a device, where CUDA does not wait either.
cudaError_t copy_now(Runtime& all, Lock& lock, void* to, const void* from, const Rectangle& size,
                     cudaMemcpyKind kind, const char* name);

/// Queues a fill on a stream.
cudaError_t fill_async(Runtime& all, Lock& lock, void* to, int value, std::size_t pitch, std::size_t width,
                       std::size_t height, cudaStream_t stream, const char* name);

/// Queues the copies of cudaMemcpyBatchAsync, whose order CUDA leaves open: it is shuffled by the seed.
struct Batch {
  void* const* to;
  const void* const* from;
  const std::size_t* sizes;
  std::size_t count;
  const cudaMemcpyAttributes* attributes;
  const std::size_t* first_of_attributes;
  std::size_t attribute_count;
};
cudaError_t copy_batch(Runtime& all, Lock& lock, const Batch& batch, cudaStream_t stream, const char* name);

}  // namespace emulated_gpu
