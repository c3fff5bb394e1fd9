#include "speedtorch/cuda_runtime.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <array>
#include <filesystem>
#include <utility>

#include "speedtorch/kernels/cuda/device.h"

namespace speedtorch {
namespace {

using kernels::check_cuda;

/// Returns the folder of the LibTorch that this process runs on, or an empty path if unknown: then the loader
/// searches.
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
    const bool is_known = cudaDeviceGetPCIBusId(text.data(), text.size() - 1, device) == cudaSuccess;
    ids.emplace_back(is_known ? text.data() : "");
  }
  return ids;
}

/// Returns the loader's error, or nothing.
std::string load_libtorch_cuda() {
  const auto path = libtorch_folder() / "libtorch_cuda.so";
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return {};
  return ::dlerror();
}

/// dlopen() finds the driver by its name alone, so this initialises nothing.
bool has_driver() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

/// Loads LibTorch's CUDA library and initialises nothing, so main() may still fork or choose devices.
[[maybe_unused]] const bool loaded_before_main =
    loads_cuda_before_main() && has_driver() && load_libtorch_cuda().empty();

/// Free and total memory of the current device, bytes.
std::pair<std::size_t, std::size_t> memory_info() {
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {free, total};
}

}  // namespace

bool built_with_cuda() { return true; }

CudaStatus probe_cuda() {
  CudaStatus status;
  status.emulated = ::dlsym(RTLD_DEFAULT, "emulated_gpu_marker") != nullptr;
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
  if (!at::detail::getCUDAHooks().hasCUDA()) {
    status.missing =
        "LibTorch's CUDA library in time: LibTorch had looked for it before (in at::manual_seed(), a "
        "backward "
        "pass or is_pinned())";
    status.cure = "call speedtorch::cuda_status() first in main(), or link libtorch_cuda";
    return status;
  }
  status.names = device_names(status.devices);
  status.bus_ids = device_bus_ids(status.devices);
  status.available = true;
  return status;
}

namespace cuda_runtime {

at::Device current_gpu() { return c10::impl::VirtualGuardImpl(at::kCUDA).getDevice(); }

void synchronize(at::Device gpu) {
  const c10::DeviceGuard guard(gpu);
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::int64_t free_bytes(at::Device gpu) {
  const c10::DeviceGuard guard(gpu);
  return static_cast<std::int64_t>(memory_info().first);
}

CudaMemory memory(at::Device gpu) {
  at::globalContext().lazyInitDevice(at::kCUDA);  // before this the allocator has no figures
  const c10::DeviceGuard guard(gpu);
  const auto [free, total] = memory_info();
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(gpu.index());
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {static_cast<std::int64_t>(total - free), stats.reserved_bytes[all].current,
          stats.allocated_bytes[all].current, stats.reserved_bytes[all].peak};
}

std::int64_t cache_bytes(at::Device gpu) {
  int bytes = 0;
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, gpu.index()), "cudaDeviceGetAttribute");
  return bytes;
}

void empty_cache() { c10::cuda::CUDACachingAllocator::emptyCache(); }

}  // namespace cuda_runtime
}  // namespace speedtorch
