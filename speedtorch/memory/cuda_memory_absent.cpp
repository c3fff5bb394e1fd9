/// The CUDA placements of a build without CUDA: each says what is missing.
#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/memory/cuda_memory.h"

namespace speedtorch {

std::shared_ptr<Memory> allocate_pinned(std::int64_t, at::Device) {
  throw PlacementError(cuda_refusal("pinned memory"));
}

std::shared_ptr<Memory> pin(std::shared_ptr<Memory>, at::Device) {
  throw PlacementError(cuda_refusal("pinned memory"));
}

std::shared_ptr<Memory> allocate_device(std::int64_t, at::Device) {
  throw PlacementError(cuda_refusal("device memory"));
}

}  // namespace speedtorch
