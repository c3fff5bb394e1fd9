// The names and texts of those of CUDA's errors that the substitute gives or programs ask about.
#include "tests/emulated_gpu/runtime/cuda_api.h"

#include <map>

#include "tests/emulated_gpu/runtime/runtime.h"

using namespace emulated_gpu;

namespace {

struct ErrorText {
  const char* name;
  const char* text;
};

const std::map<int, ErrorText>& error_texts() {
  static const auto* const all = new std::map<int, ErrorText>{
      {0, {"cudaSuccess", "no error"}},
      {1, {"cudaErrorInvalidValue", "invalid argument"}},
      {2, {"cudaErrorMemoryAllocation", "out of memory"}},
      {4, {"cudaErrorCudartUnloading", "driver shutting down"}},
      {9, {"cudaErrorInvalidConfiguration", "invalid configuration argument"}},
      {12, {"cudaErrorInvalidPitchValue", "invalid pitch argument"}},
      {13, {"cudaErrorInvalidSymbol", "invalid device symbol"}},
      {35, {"cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"}},
      {46, {"cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"}},
      {52, {"cudaErrorMissingConfiguration", "__global__ function call is not configured"}},
      {98, {"cudaErrorInvalidDeviceFunction", "invalid device function"}},
      {100, {"cudaErrorNoDevice", "no CUDA-capable device is detected"}},
      {101, {"cudaErrorInvalidDevice", "invalid device ordinal"}},
      {209, {"cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"}},
      {215, {"cudaErrorUnsupportedLimit", "limit is not supported on this architecture"}},
      {400, {"cudaErrorInvalidResourceHandle", "invalid resource handle"}},
      {401, {"cudaErrorIllegalState", "the operation cannot be performed in the present state"}},
      {600, {"cudaErrorNotReady", "device not ready"}},
      {700, {"cudaErrorIllegalAddress", "an illegal memory access was encountered"}},
      {701, {"cudaErrorLaunchOutOfResources", "too many resources requested for launch"}},
      {704, {"cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"}},
      {705, {"cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"}},
      {710, {"cudaErrorAssert", "device-side assert triggered"}},
      {712,
       {"cudaErrorHostMemoryAlreadyRegistered",
        "part or all of the requested memory range is already mapped"}},
      {713,
       {"cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"}},
      {715, {"cudaErrorIllegalInstruction", "an illegal instruction was encountered"}},
      {716, {"cudaErrorMisalignedAddress", "misaligned address"}},
      {717, {"cudaErrorInvalidAddressSpace", "operation not supported on global/shared address space"}},
      {718, {"cudaErrorInvalidPc", "invalid program counter"}},
      {719, {"cudaErrorLaunchFailure", "unspecified launch failure"}},
      {800, {"cudaErrorNotPermitted", "operation not permitted"}},
      {801, {"cudaErrorNotSupported", "operation not supported"}},
      {900, {"cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"}},
      {901, {"cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"}},
      {902,
       {"cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"}},
      {903, {"cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"}},
      {904, {"cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"}},
      {905, {"cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"}},
      {906,
       {"cudaErrorStreamCaptureImplicit",
        "operation would make the legacy stream depend on a capturing blocking stream"}},
      {907,
       {"cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"}},
      {908,
       {"cudaErrorStreamCaptureWrongThread",
        "attempt to terminate a thread-local capture sequence from another thread"}},
      {999, {"cudaErrorUnknown", "unknown error"}}};
  return *all;
}

constexpr const char* unknown = "unrecognized error code";

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const auto found = error_texts().find(error);
  return found == error_texts().end() ? unknown : found->second.name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto found = error_texts().find(error);
  return found == error_texts().end() ? unknown : found->second.text;
}

cudaError_t cudaPeekAtLastError() {
  const auto sticky = runtime().sticky();
  return sticky != cudaSuccess ? sticky : thread_state().last_error;
}

cudaError_t cudaGetLastError() {
  const auto error = cudaPeekAtLastError();
  thread_state().last_error = cudaSuccess;
  return error;
}

}  // extern "C"
