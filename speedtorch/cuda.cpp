#include "speedtorch/cuda.h"

#include <ATen/core/Tensor.h>
#include <dlfcn.h>
#include <torch/version.h>

#include "speedtorch/error.h"

#ifdef SPEEDTORCH_HAS_CUDA
#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <array>
#include <filesystem>
#endif

namespace speedtorch {
namespace {

#ifdef SPEEDTORCH_HAS_CUDA

void require_success(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw CudaError(call, cudaGetErrorName(error), cudaGetErrorString(error));
}

/// The folder of the LibTorch this process runs on; empty, which leaves the search to the loader, where it is
/// unknown.
std::filesystem::path libtorch_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&at::globalContext), &info) == 0 || info.dli_fname == nullptr)
    return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

std::vector<std::string> device_names(int devices) {
  std::vector<std::string> names;
  for (int device = 0; device < devices; ++device) {
    cudaDeviceProp properties{};
    names.emplace_back(cudaGetDeviceProperties(&properties, device) == cudaSuccess ? properties.name
                                                                                   : "unnamed");
  }
  return names;
}

std::vector<std::string> device_bus_ids(int devices) {
  std::vector<std::string> ids;
  for (int device = 0; device < devices; ++device) {
    std::array<char, 32> text{};
    const bool told = cudaDeviceGetPCIBusId(text.data(), text.size() - 1, device) == cudaSuccess;
    ids.emplace_back(told ? text.data() : "");
  }
  return ids;
}

std::string load_libtorch_cuda() {
  const auto path = libtorch_folder() / "libtorch_cuda.so";
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return {};
  return ::dlerror();
}

CudaStatus look() {
  CudaStatus status;
  cudaRuntimeGetVersion(&status.runtime_version);
  const auto runtime = std::to_string(status.runtime_version / 1000) + "." +
                       std::to_string(status.runtime_version % 1000 / 10);
  status.found = "LibTorch " TORCH_VERSION " built with CUDA, CUDA runtime " + runtime;
  if (::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    status.missing = "the NVIDIA driver (libcuda.so.1)";
    status.cure = "install the driver of this machine's NVIDIA GPU";
    return status;
  }
  cudaDriverGetVersion(&status.driver_version);
  const auto error = cudaGetDeviceCount(&status.devices);
  if (error != cudaSuccess || status.devices == 0) {
    cudaGetLastError();
    status.missing = std::string("a usable GPU (") +
                     (error == cudaSuccess ? "the driver lists none" : cudaGetErrorString(error)) + ")";
    status.cure = "check nvidia-smi; the driver must be at least as new as the CUDA runtime";
    return status;
  }
  if (const auto problem = load_libtorch_cuda(); !problem.empty()) {
    status.missing = "LibTorch's CUDA library (" + problem + ")";
    status.cure = "install a LibTorch built with CUDA, or name one with Torch_DIR";
    return status;
  }
  status.names = device_names(status.devices);
  status.bus_ids = device_bus_ids(status.devices);
  status.available = true;
  return status;
}

#else

CudaStatus look() {
  CudaStatus status;
  status.found = "LibTorch " TORCH_VERSION ", stbench built without CUDA";
  status.missing = "a build with CUDA";
  status.cure = "build with a CUDA LibTorch and a CUDA compiler (docs/install.md)";
  return status;
}

#endif

}  // namespace

const CudaStatus& cuda_status() {
  static const CudaStatus status = look();
  return status;
}

std::string cuda_refusal(const std::string& what) {
  const auto& status = cuda_status();
  return what + " needs CUDA: found " + status.found + "; missing " + status.missing + "; " + status.cure;
}

void require_cuda(const std::string& what) {
  if (!cuda_status().available) throw PlacementError(cuda_refusal(what));
}

#ifdef SPEEDTORCH_HAS_CUDA

void synchronize_cuda(at::Device device) {
  if (!cuda_status().available) return;
  const c10::DeviceGuard guard(device);
  require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::int64_t cuda_free_bytes(at::Device device) {
  if (!cuda_status().available) return 0;
  const c10::DeviceGuard guard(device);
  std::size_t free = 0, total = 0;
  require_success(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

CudaMemory cuda_memory(at::Device device) {
  if (!cuda_status().available) return {};
  at::globalContext().lazyInitDevice(at::kCUDA);  // the allocator has no figures before
  const c10::DeviceGuard guard(device);
  std::size_t free = 0, total = 0;
  require_success(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {static_cast<std::int64_t>(total - free), stats.reserved_bytes[all].current,
          stats.allocated_bytes[all].current, stats.reserved_bytes[all].peak};
}

std::int64_t cuda_cache_bytes(at::Device device) {
  if (!cuda_status().available) return 0;
  int bytes = 0;
  require_success(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device.index()),
                  "cudaDeviceGetAttribute");
  return bytes;
}

#else

CudaMemory cuda_memory(at::Device) { return {}; }
void synchronize_cuda(at::Device) {}
std::int64_t cuda_free_bytes(at::Device) { return 0; }
std::int64_t cuda_cache_bytes(at::Device) { return 0; }

#endif

}  // namespace speedtorch
