#include "speedtorch/cuda.h"

#include <torch/version.h>

#include <string_view>

#include "speedtorch/error.h"

namespace speedtorch {

[[gnu::weak]] bool loads_cuda_before_main() { return true; }

const CudaStatus& cuda_status() {
  static const CudaStatus status = probe_cuda();
  return status;
}

std::string cuda_refusal(const std::string& what) {
  const auto& status = cuda_status();
  return what + " needs CUDA: found " + status.found + "; missing " + status.missing + "; " + status.cure;
}

void require_cuda(const std::string& what) {
  if (!cuda_status().available) throw PlacementError(cuda_refusal(what));
}

bool is_cuda_out_of_memory(const c10::Error& error) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 8  // from here on runtime errors carry their number
  constexpr std::int32_t memory_allocation = 2;          // cudaErrorMemoryAllocation
  if (const auto* numbered = dynamic_cast<const c10::AcceleratorError*>(&error))
    return numbered->get_error_code() == memory_allocation;
#endif
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         std::string_view(error.what()).find("CUDA error: out of memory") != std::string_view::npos;
}

at::Device gpu_of(at::Device device, const std::string& what) {
  const auto refuse = [&](const std::string& why) {
    throw PlacementError(what + " on " + device.str() + ": " + why);
  };
  if (!device.is_cuda() && !device.is_cpu()) refuse("that is not a CUDA GPU; use cuda or cuda:0");
  if (!cuda_status().available)
    throw PlacementError(cuda_refusal(device.is_cuda() ? what + " on " + device.str() : what));
  const int devices = cuda_status().devices;
  if (device.has_index() && device.is_cuda()) {
    if (device.index() < devices) return device;
    refuse(devices == 1 ? "there is one GPU, cuda:0"
                        : "the GPUs are cuda:0 to cuda:" + std::to_string(devices - 1));
  }
  return cuda_runtime::current_gpu();
}

void synchronize_cuda(at::Device device) {
  if (cuda_status().available) cuda_runtime::synchronize(device);
}

CudaMemory cuda_memory(at::Device device) {
  if (!cuda_status().available) return {};
  return cuda_runtime::memory(gpu_of(device, "memory in use"));
}

std::int64_t cuda_free_bytes(at::Device device) {
  if (!cuda_status().available) return 0;
  return cuda_runtime::free_bytes(gpu_of(device, "free memory"));
}

std::int64_t cuda_cache_bytes(at::Device device) {
  if (!cuda_status().available) return 0;
  return cuda_runtime::cache_bytes(gpu_of(device, "a level-2 cache"));
}

}  // namespace speedtorch
