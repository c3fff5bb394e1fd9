// Counts the kernels that a step of contiguous parameters launches. This program's launch function replaces
// the CUDA runtime's and counts. Skipped without a GPU.

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/cuda.h"
#include "tests/speedtorch/gpu_fixture.h"
#ifdef SPEEDTORCH_HAS_CUDA
#include <cuda_runtime_api.h>

namespace {

std::atomic<int> kernel_launches{0};

template <class Launch>
Launch* of_the_runtime(const char* name) {
  ++kernel_launches;
  return reinterpret_cast<Launch*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// The compiler generates this call for <<<>>>; libraries call it too.
extern "C" cudaError_t __cudaLaunchKernel(  // NOLINT(bugprone-reserved-identifier)
    cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream) {
  using Launch = cudaError_t(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t);
  return of_the_runtime<Launch>("__cudaLaunchKernel")(kernel, grid, block, arguments, shared, stream);
}

extern "C" cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                        std::size_t shared, cudaStream_t stream) {
  using Launch = cudaError_t(const void*, dim3, dim3, void**, std::size_t, cudaStream_t);
  return of_the_runtime<Launch>("cudaLaunchKernel")(kernel, grid, block, arguments, shared, stream);
}

extern "C" cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* launch, const void* kernel,
                                           void** arguments) {
  using Launch = cudaError_t(const cudaLaunchConfig_t*, const void*, void**);
  return of_the_runtime<Launch>("cudaLaunchKernelExC")(launch, kernel, arguments);
}

namespace speedtorch {
namespace {

std::vector<at::Tensor> with_gradients(int count) {
  const auto there = at::TensorOptions().device(at::kCUDA, 0);
  std::vector<at::Tensor> tensors;
  for (int k = 0; k < count; ++k) {
    tensors.push_back(at::ones({7 + k}, there).set_requires_grad(true));
    tensors.back().mutable_grad() = at::ones({7 + k}, there);
  }
  return tensors;
}

/// Counts a later step, because the first one allocates scratch for the norm.
int launches_of_a_step(int tensors, const StepOptions& options) {
  ContiguousOptimizer optimizer(with_gradients(tensors), AdamOptions{});
  optimizer.step({.max_norm = 1.0});
  synchronize_cuda(at::Device(at::kCUDA, 0));
  using Count = unsigned long long();
  auto* const of_the_emulator = reinterpret_cast<Count*>(::dlsym(RTLD_DEFAULT, "emulated_gpu_launches"));
  const auto run_before = of_the_emulator != nullptr ? of_the_emulator() : 0;
  kernel_launches = 0;
  optimizer.step(options);
  const int counted = kernel_launches;
  synchronize_cuda(at::Device(at::kCUDA, 0));
  if (of_the_emulator != nullptr) {
    EXPECT_EQ(of_the_emulator() - run_before, static_cast<unsigned>(counted)) << "launched, and run";
  }
  return counted;
}

class ContiguousLaunches : public test::NeedsGpu {};

TEST_F(ContiguousLaunches, ClippedStepLaunchesAsManyKernelsFor200TensorsAsFor2) {
  for (const int tensors : {2, 200}) {
    EXPECT_EQ(launches_of_a_step(tensors, {.max_norm = 1.0, .zero_grad = true}), 2) << tensors;
    EXPECT_EQ(launches_of_a_step(tensors, {.zero_grad = true}), 1) << tensors;
  }
}

}  // namespace
}  // namespace speedtorch
#endif
