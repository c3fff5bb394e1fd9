#include "speedtorch/infinity/out_of_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"

namespace speedtorch::infinity {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) || dynamic_cast<const std::bad_alloc*>(&error) ||
      dynamic_cast<const MemoryError*>(&error))
    return true;
  if (const auto* ours = dynamic_cast<const CudaError*>(&error))
    return ours->name() == "cudaErrorMemoryAllocation";
  const auto* const of_libtorch = dynamic_cast<const c10::Error*>(&error);
  if (of_libtorch == nullptr) return false;
  if (is_cuda_out_of_memory(*of_libtorch)) return true;
  // LibTorch's CPU allocator, cuBLAS and cuDNN throw plain errors, recognisable only by their text.
  constexpr std::array<std::string_view, 4> words{"can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED",
                                                  "CUDNN_STATUS_ALLOC_FAILED",
                                                  "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"};
  const std::string_view what = error.what();
  return std::any_of(words.begin(), words.end(), [&](auto word) { return what.find(word) != what.npos; });
}

void free_cached_memory(at::Device device) {
  if (device.is_cuda()) cuda_runtime::empty_cache();
}

}  // namespace speedtorch::infinity
