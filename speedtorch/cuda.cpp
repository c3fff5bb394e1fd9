#include "speedtorch/cuda.h"

#include <ATen/core/Tensor.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <string_view>

#include "speedtorch/error.h"

#ifdef SPEEDTORCH_HAS_CUDA
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <array>
#include <filesystem>
#endif

namespace speedtorch {
namespace {

#ifdef SPEEDTORCH_HAS_CUDA

/// The runtime forgets the error, which LibTorch's next call would report as its own.
void require_success(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw CudaError(call, cudaGetErrorName(error), cudaGetErrorString(error));
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

[[gnu::weak]] bool loads_cuda_before_main() { return true; }

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

bool is_cuda_out_of_memory(const c10::Error& error) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 8  // since then an error of the runtime has its number
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
  if (!device.is_cuda() && !device.is_cpu())
    refuse("that is no GPU of CUDA; cuda, or cuda:0, would be right");
  if (!cuda_status().available)
    throw PlacementError(cuda_refusal(device.is_cuda() ? what + " on " + device.str() : what));
  const int devices = cuda_status().devices;
  if (device.has_index() && device.is_cuda()) {
    if (device.index() < devices) return device;
    refuse(devices == 1 ? "there is one GPU, cuda:0"
                        : "the GPUs are cuda:0 to cuda:" + std::to_string(devices - 1));
  }
#ifdef SPEEDTORCH_HAS_CUDA
  return c10::impl::VirtualGuardImpl(at::kCUDA).getDevice();
#else
  return device;
#endif
}

#ifdef SPEEDTORCH_HAS_CUDA

namespace {

/// The loader knows the driver by its name alone: nothing is initialised by asking.
bool has_driver() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

/// Only loaded: nothing of CUDA is initialised, so that main() may still fork or choose devices.
[[maybe_unused]] const bool loaded_before_main =
    loads_cuda_before_main() && has_driver() && load_libtorch_cuda().empty();

}  // namespace

void synchronize_cuda(at::Device device) {
  if (!cuda_status().available) return;
  const c10::DeviceGuard guard(device);
  require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::int64_t cuda_free_bytes(at::Device device) {
  if (!cuda_status().available) return 0;
  const c10::DeviceGuard guard(gpu_of(device, "free memory"));
  std::size_t free = 0, total = 0;
  require_success(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

CudaMemory cuda_memory(at::Device device) {
  if (!cuda_status().available) return {};
  device = gpu_of(device, "memory in use");
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
  const int number = gpu_of(device, "a level-2 cache").index();
  require_success(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, number), "cudaDeviceGetAttribute");
  return bytes;
}

#else

CudaMemory cuda_memory(at::Device) { return {}; }
void synchronize_cuda(at::Device) {}
std::int64_t cuda_free_bytes(at::Device) { return 0; }
std::int64_t cuda_cache_bytes(at::Device) { return 0; }

#endif

}  // namespace speedtorch
