// Functions by which programs register kernels when they are loaded, launch them and ask about them.
#include "tests/emulated_gpu/runtime/cuda_api.h"

#include <vector>

#include "tests/emulated_gpu/runtime/copies.h"
#include "tests/emulated_gpu/runtime/device.h"
#include "tests/emulated_gpu/runtime/launch.h"
#include "tests/emulated_gpu/runtime/messages.h"

using namespace emulated_gpu;

namespace {

struct Configuration {
  LaunchShape shape;
  cudaStream_t stream = nullptr;
};

/// The configurations of <<<...>>> whose launch has not come yet.
thread_local std::vector<Configuration> configurations;

Binary* binary_of(void** handle) { return reinterpret_cast<Binary*>(handle); }

cudaError_t launch_call(const char* name, const void* function, const LaunchShape& shape, void** arguments,
                        cudaStream_t stream) {
  return call(
      name, [&](Runtime& all, Lock& lock) { return launch(all, lock, function, shape, arguments, stream); });
}

/// Calls the body with a kernel that the program knows.
template <class Body>
cudaError_t with_kernel(const char* name, const void* host, Body body) {
  return call(name, [&](Runtime& all, Lock&) {
    auto* const function = all.kernels.function(host);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    const auto* const kernel = Kernels::kernel(*function);
    return kernel == nullptr ? cudaErrorNoKernelImageForDevice : body(*function, *kernel);
  });
}

cudaError_t occupancy(const char* name, int* blocks, const void* function, int threads, std::size_t shared) {
  return with_kernel(name, function, [&](const RegisteredFunction&, const Kernel& kernel) {
    if (blocks == nullptr || threads <= 0) return cudaErrorInvalidValue;
    *blocks = blocks_of_multiprocessor(kernel, threads, shared);
    return cudaSuccess;
  });
}

/// Attributes of a launch that change what it does. The rest are hints.
bool changes_the_launch(const cudaLaunchAttribute& attribute) {
  switch (attribute.id) {
    case cudaLaunchAttributeClusterDimension: {
      const auto& size = attribute.val.clusterDim;
      return size.x * size.y * size.z > 1;
    }
    case cudaLaunchAttributeCooperative:
      return attribute.val.cooperative != 0;
    case cudaLaunchAttributeProgrammaticEvent:
    case cudaLaunchAttributeLaunchCompletionEvent:
      return true;
    default:
      return false;
  }
}

}  // namespace

extern "C" {

#pragma GCC visibility push(default)

void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(Kernels::add_binary(wrapper));
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  auto& all = runtime();
  const std::lock_guard lock(all.mutex);
  all.kernels.add_function(host, binary_of(handle), name);
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, std::size_t, int, int) {
  auto& all = runtime();
  const std::lock_guard lock(all.mutex);
  all.kernels.add_symbol(host, binary_of(handle), name);
}

void __cudaRegisterManagedVar(void**, void**, char*, const char* name, int, std::size_t, int, int) {
  say(text("the managed variable ", name, " is not emulated"));
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream) {
  configurations.push_back({{grid, block, shared}, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (configurations.empty()) return note(cudaErrorMissingConfiguration);
  const auto last = configurations.back();
  configurations.pop_back();
  *grid = last.shape.grid;
  *block = last.shape.block;
  *shared = last.shape.dynamic_shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

/// The handle of a kernel is the program's own pointer to it.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream) {
  return launch_call(__func__, kernel, {grid, block, shared}, arguments, stream);
}

#pragma GCC visibility pop

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared, cudaStream_t stream) {
  return launch_call(__func__, function, {grid, block, shared}, arguments, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  for (unsigned i = 0; config != nullptr && i < config->numAttrs; ++i) {
    if (!changes_the_launch(config->attrs[i])) continue;
    say(text("cudaLaunchKernelExC: attribute ", config->attrs[i].id, " is not emulated"));
    return note(cudaErrorNotSupported);
  }
  if (config == nullptr) return note(cudaErrorInvalidValue);
  const LaunchShape shape{config->gridDim, config->blockDim, config->dynamicSmemBytes};
  return launch_call(__func__, function, shape, arguments, config->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host) {
  return with_kernel(__func__, host, [&](const RegisteredFunction& function, const Kernel& kernel) {
    *attributes = {};
    attributes->maxThreadsPerBlock = static_cast<int>(kernel.most_threads);
    attributes->sharedSizeBytes = kernel.static_shared;
    attributes->localSizeBytes = kernel.local_bytes;
    attributes->numRegs = 32;
    attributes->ptxVersion = function.binary->architecture;
    attributes->binaryVersion = compute_capability;
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(function.most_dynamic_shared);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  return with_kernel(__func__, host, [&](RegisteredFunction& function, const Kernel& kernel) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;  // a hint
    if (value < 0 || static_cast<std::size_t>(value) + kernel.static_shared > shared_of_block_at_most)
      return cudaErrorInvalidValue;
    function.most_dynamic_shared = static_cast<std::size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          std::size_t shared) {
  return occupancy(__func__, blocks, function, threads, shared);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                   int threads, std::size_t shared,
                                                                   unsigned) {
  return occupancy(__func__, blocks, function, threads, shared);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return call(__func__, [&](Runtime& all, Lock&) {
    const auto* const variable = all.kernels.variable(symbol);
    if (variable == nullptr) return cudaErrorInvalidSymbol;
    *address = variable->bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                               cudaMemcpyKind kind) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    const auto* const variable = all.kernels.variable(symbol);
    if (variable == nullptr) return cudaErrorInvalidSymbol;
    if (offset > variable->size || bytes > variable->size - offset) return cudaErrorInvalidValue;
    const bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDefault;
    if (!from_host) return cudaErrorNotSupported;
    const Rectangle size{.to_pitch = bytes, .from_pitch = bytes, .width = bytes};
    return copy_now(all, lock, variable->bytes + offset, from, size, cudaMemcpyDefault, "cudaMemcpyToSymbol");
  });
}

}  // extern "C"
