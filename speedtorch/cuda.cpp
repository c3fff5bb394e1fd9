#include "speedtorch/cuda.h"

#include <ATen/core/Tensor.h>
#include <dlfcn.h>
#include <torch/version.h>

#include "speedtorch/error.h"

#ifdef SPEEDTORCH_HAS_CUDA
#include <ATen/Context.h>
#include <cuda_runtime_api.h>

#include <filesystem>
#endif

namespace speedtorch {
namespace {

#ifdef SPEEDTORCH_HAS_CUDA

/// The folder of the LibTorch this process runs on.
std::filesystem::path libtorch_folder() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&at::globalContext), &info);
  return std::filesystem::path(info.dli_fname).parent_path();
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
    status.missing = std::string("a usable GPU (") + cudaGetErrorString(error) + ")";
    status.cure = "check nvidia-smi; the driver must be at least as new as the CUDA runtime";
    return status;
  }
  if (const auto problem = load_libtorch_cuda(); !problem.empty()) {
    status.missing = "LibTorch's CUDA library (" + problem + ")";
    status.cure = "install a LibTorch built with CUDA, or name one with Torch_DIR";
    return status;
  }
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

void synchronize_cuda() {
#ifdef SPEEDTORCH_HAS_CUDA
  if (!cuda_status().available) return;
  if (const auto error = cudaDeviceSynchronize(); error != cudaSuccess) {
throw CudaError("cudaDeviceSynchronize", cudaGetErrorName(error), cudaGetErrorString(error));
  }
#endif
}

}  // namespace speedtorch
