// Functions of the driver that LibTorch's compiler of kernels links, but that are not emulated.
#include "tests/emulated_gpu/runtime/absent.h"

using emulated_gpu::not_emulated;

#pragma GCC visibility push(default)
extern "C" {
int cuCtxSetCurrent() { return not_emulated(__func__); }
int cuDevicePrimaryCtxRetain() { return not_emulated(__func__); }
int cuFuncGetAttribute() { return not_emulated(__func__); }
int cuFuncSetAttribute() { return not_emulated(__func__); }
int cuFuncSetCacheConfig() { return not_emulated(__func__); }
int cuLaunchCooperativeKernel() { return not_emulated(__func__); }
int cuLaunchKernel() { return not_emulated(__func__); }
int cuLinkAddData_v2() { return not_emulated(__func__); }
int cuLinkComplete() { return not_emulated(__func__); }
int cuLinkCreate_v2() { return not_emulated(__func__); }
int cuModuleGetFunction() { return not_emulated(__func__); }
int cuModuleLoad() { return not_emulated(__func__); }
int cuModuleLoadData() { return not_emulated(__func__); }
int cuModuleLoadDataEx() { return not_emulated(__func__); }
int cuModuleUnload() { return not_emulated(__func__); }
int cuOccupancyMaxActiveBlocksPerMultiprocessor() { return not_emulated(__func__); }
int cuPointerGetAttribute() { return not_emulated(__func__); }
int cuTensorMapEncodeTiled() { return not_emulated(__func__); }
}  // extern "C"
#pragma GCC visibility pop
