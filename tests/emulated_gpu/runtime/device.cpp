#include "tests/emulated_gpu/runtime/device.h"

#include <array>
#include <cstdio>
#include <map>

#include "tests/emulated_gpu/runtime/settings.h"

namespace emulated_gpu {
namespace {

using Attributes = std::map<cudaDeviceAttr, int>;

void add_limits(Attributes& all, const cudaDeviceProp& device) {
  all[cudaDevAttrMaxThreadsPerBlock] = device.maxThreadsPerBlock;
  all[cudaDevAttrMaxBlockDimX] = device.maxThreadsDim[0];
  all[cudaDevAttrMaxBlockDimY] = device.maxThreadsDim[1];
  all[cudaDevAttrMaxBlockDimZ] = device.maxThreadsDim[2];
  all[cudaDevAttrMaxGridDimX] = device.maxGridSize[0];
  all[cudaDevAttrMaxGridDimY] = device.maxGridSize[1];
  all[cudaDevAttrMaxGridDimZ] = device.maxGridSize[2];
  all[cudaDevAttrMaxSharedMemoryPerBlock] = static_cast<int>(device.sharedMemPerBlock);
  all[cudaDevAttrMaxSharedMemoryPerBlockOptin] = static_cast<int>(device.sharedMemPerBlockOptin);
  all[cudaDevAttrMaxSharedMemoryPerMultiprocessor] = static_cast<int>(device.sharedMemPerMultiprocessor);
  all[cudaDevAttrReservedSharedMemoryPerBlock] = static_cast<int>(device.reservedSharedMemPerBlock);
  all[cudaDevAttrTotalConstantMemory] = static_cast<int>(device.totalConstMem);
  all[cudaDevAttrMaxPitch] = static_cast<int>(device.memPitch);
  all[cudaDevAttrMaxRegistersPerBlock] = device.regsPerBlock;
  all[cudaDevAttrMaxRegistersPerMultiprocessor] = device.regsPerMultiprocessor;
  all[cudaDevAttrMaxThreadsPerMultiProcessor] = device.maxThreadsPerMultiProcessor;
  all[cudaDevAttrMaxBlocksPerMultiprocessor] = device.maxBlocksPerMultiProcessor;
  all[cudaDevAttrTextureAlignment] = static_cast<int>(device.textureAlignment);
}

void add_kind(Attributes& all, const cudaDeviceProp& device) {
  all[cudaDevAttrWarpSize] = device.warpSize;
  all[cudaDevAttrMultiProcessorCount] = device.multiProcessorCount;
  all[cudaDevAttrComputeCapabilityMajor] = device.major;
  all[cudaDevAttrComputeCapabilityMinor] = device.minor;
  all[cudaDevAttrL2CacheSize] = device.l2CacheSize;
  all[cudaDevAttrGlobalMemoryBusWidth] = device.memoryBusWidth;
  all[cudaDevAttrAsyncEngineCount] = device.asyncEngineCount;
  all[cudaDevAttrPciBusId] = device.pciBusID;
  all[cudaDevAttrPciDeviceId] = device.pciDeviceID;
  all[cudaDevAttrPciDomainId] = device.pciDomainID;
  all[cudaDevAttrClockRate] = 1980000;
  all[cudaDevAttrMemoryClockRate] = 2619000;
  all[cudaDevAttrHostNumaId] = device.hostNumaId;
  for (const auto attribute :
       {cudaDevAttrGpuOverlap, cudaDevAttrCanMapHostMemory, cudaDevAttrConcurrentKernels,
        cudaDevAttrEccEnabled, cudaDevAttrUnifiedAddressing, cudaDevAttrStreamPrioritiesSupported,
        cudaDevAttrGlobalL1CacheSupported, cudaDevAttrLocalL1CacheSupported,
        cudaDevAttrComputePreemptionSupported, cudaDevAttrCanUseHostPointerForRegisteredMem,
        cudaDevAttrCooperativeLaunch, cudaDevAttrHostRegisterSupported,
        cudaDevAttrHostRegisterReadOnlySupported, cudaDevAttrHostNativeAtomicSupported})
    all[attribute] = 1;
  all[cudaDevAttrHostNativeAtomicSupported] = 0;  // over PCIe
  for (const auto attribute :
       {cudaDevAttrManagedMemory, cudaDevAttrConcurrentManagedAccess, cudaDevAttrIntegrated,
        cudaDevAttrPageableMemoryAccess, cudaDevAttrMemoryPoolsSupported, cudaDevAttrKernelExecTimeout,
        cudaDevAttrComputeMode})
    all[attribute] = 0;
}

}  // namespace

std::string bus_id(int device) {
  std::array<char, 32> id{};
  std::snprintf(id.data(), id.size(), "0000:%02X:00.0", static_cast<unsigned>(bus_number(device)));
  return id.data();
}

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp all{};
  std::snprintf(all.name, sizeof all.name, "Emulated GPU %d", device);
  all.uuid.bytes[0] = static_cast<char>(device + 1);
  all.totalGlobalMem = settings().bytes[static_cast<std::size_t>(device)];
  all.major = compute_capability / 10;
  all.minor = compute_capability % 10;
  all.warpSize = warp_size;
  all.multiProcessorCount = multiprocessors;
  all.maxThreadsPerBlock = most_threads_of_block;
  all.maxThreadsDim[0] = all.maxThreadsDim[1] = 1024;
  all.maxThreadsDim[2] = 64;
  all.maxGridSize[0] = 2147483647;
  all.maxGridSize[1] = all.maxGridSize[2] = 65535;
  all.maxThreadsPerMultiProcessor = most_threads_of_multiprocessor;
  all.maxBlocksPerMultiProcessor = most_blocks_of_multiprocessor;
  all.sharedMemPerBlock = shared_of_block;
  all.sharedMemPerBlockOptin = shared_of_block_at_most;
  all.sharedMemPerMultiprocessor = shared_of_multiprocessor;
  all.reservedSharedMemPerBlock = reserved_shared;
  all.regsPerBlock = all.regsPerMultiprocessor = 65536;
  all.totalConstMem = 65536;
  all.memPitch = 2147483647;
  all.textureAlignment = 512;
  all.memoryBusWidth = 5120;
  all.l2CacheSize = 50 << 20;
  all.persistingL2CacheMaxSize = 32 << 20;
  all.asyncEngineCount = 3;
  all.pciBusID = bus_number(device);
  all.hostNumaId = -1;
  all.ECCEnabled = all.canMapHostMemory = all.concurrentKernels = all.unifiedAddressing = 1;
  all.streamPrioritiesSupported = all.globalL1CacheSupported = all.localL1CacheSupported = 1;
  all.computePreemptionSupported = all.canUseHostPointerForRegisteredMem = all.cooperativeLaunch = 1;
  all.hostRegisterSupported = all.hostRegisterReadOnlySupported = 1;
  return all;
}

bool attribute_of(int device, cudaDeviceAttr attribute, int* value) {
  Attributes all;
  const auto properties = properties_of(device);
  add_limits(all, properties);
  add_kind(all, properties);
  const auto found = all.find(attribute);
  *value = found == all.end() ? 0 : found->second;
  return found != all.end();
}

}  // namespace emulated_gpu
