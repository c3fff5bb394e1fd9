#include "tests/emulated_gpu/torch/deferred.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <memory>
#include <utility>

#include "tests/emulated_gpu/emulated_gpu.h"
#include "tests/emulated_gpu/fault.h"

namespace emulated_gpu {
namespace {

constexpr int kAssertFailed = 710;
constexpr int kLaunchFailed = 719;

struct Work {
  std::string operation;
  std::function<void()> run;
};

void run_work(void* argument) {
  const auto& work = *static_cast<const Work*>(argument);
  const KernelScope scope;
  const c10::AutoGradMode no_gradients(false);
  try {
    work.run();
  } catch (const Fault&) {
    throw;
  } catch (const c10::Error& error) {
    throw Fault(kAssertFailed, error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw Fault(kLaunchFailed, error.what());
  }
}

void release_work(void* argument) { delete static_cast<Work*>(argument); }

c10::DispatchKeySet above_kernels() {
  return c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
}

}  // namespace

KernelScope::KernelScope()
    : keys_(c10::DispatchKeySet(c10::DispatchKey::BackendSelect), above_kernels()),
      no_observers_(/*is_enabled=*/false) {}

void defer(std::string operation, std::function<void()> work) {
  auto argument = std::make_unique<Work>(Work{std::move(operation), std::move(work)});
  const std::string name = argument->operation;
  const auto stream = c10::cuda::getCurrentCUDAStream();
  C10_CUDA_CHECK(emulated_gpu_enqueue(stream, name.c_str(), &run_work, &release_work, argument.release()));
}

void wait_for_stream() { C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream())); }

}  // namespace emulated_gpu
