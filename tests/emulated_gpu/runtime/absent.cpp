// Functions of the runtime that LibTorch and NVIDIA's libraries link, but that are not emulated. Each says
// its name. They are declared here without arguments, which they do not read: C's linkage knows no types.
#include "tests/emulated_gpu/runtime/absent.h"

using emulated_gpu::not_emulated;

#pragma GCC visibility push(default)
extern "C" {
int cudaDeviceGetDefaultMemPool() { return not_emulated(__func__); }
int cudaDeviceReset() { return not_emulated(__func__); }
int cudaFreeAsync() { return not_emulated(__func__); }
int cudaFuncSetCacheConfig() { return not_emulated(__func__); }
int cudaGraphAddKernelNode() { return not_emulated(__func__); }
int cudaGraphDebugDotPrint() { return not_emulated(__func__); }
int cudaGraphNodeGetDependencies() { return not_emulated(__func__); }
int cudaGraphUpload() { return not_emulated(__func__); }
int cudaIpcCloseMemHandle() { return not_emulated(__func__); }
int cudaIpcGetEventHandle() { return not_emulated(__func__); }
int cudaIpcGetMemHandle() { return not_emulated(__func__); }
int cudaIpcOpenEventHandle() { return not_emulated(__func__); }
int cudaIpcOpenMemHandle() { return not_emulated(__func__); }
int cudaLaunchCooperativeKernel() { return not_emulated(__func__); }
int cudaMalloc3D() { return not_emulated(__func__); }
int cudaMallocAsync() { return not_emulated(__func__); }
int cudaMallocFromPoolAsync() { return not_emulated(__func__); }
int cudaMallocPitch() { return not_emulated(__func__); }
int cudaMemAdvise() { return not_emulated(__func__); }
int cudaMemPoolCreate() { return not_emulated(__func__); }
int cudaMemPoolDestroy() { return not_emulated(__func__); }
int cudaMemPoolGetAttribute() { return not_emulated(__func__); }
int cudaMemPoolSetAccess() { return not_emulated(__func__); }
int cudaMemPoolSetAttribute() { return not_emulated(__func__); }
int cudaMemPoolTrimTo() { return not_emulated(__func__); }
int cudaMemPrefetchAsync() { return not_emulated(__func__); }
int cudaMemcpy3DAsync() { return not_emulated(__func__); }
int cudaMemcpy3DBatchAsync() { return not_emulated(__func__); }
int cudaMemcpyFromSymbol() { return not_emulated(__func__); }
int cudaMemcpyToSymbolAsync() { return not_emulated(__func__); }
int cudaOccupancyMaxActiveClusters() { return not_emulated(__func__); }
int cudaProfilerStart() { return not_emulated(__func__); }
int cudaProfilerStop() { return not_emulated(__func__); }
int cudaStreamAttachMemAsync() { return not_emulated(__func__); }
int cudaStreamGetAttribute() { return not_emulated(__func__); }
int cudaStreamSetAttribute() { return not_emulated(__func__); }
int cudaStreamUpdateCaptureDependencies() { return not_emulated(__func__); }
}  // extern "C"
#pragma GCC visibility pop
