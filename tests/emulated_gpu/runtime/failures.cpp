#include "tests/emulated_gpu/runtime/failures.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/runtime.h"
#include "tests/emulated_gpu/runtime/settings.h"

namespace emulated_gpu {
namespace {

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

/// A launch is one of cudaLaunchKernel, whichever function makes it.
std::string counted_name(std::string_view name) {
  const bool launch = name == "__cudaLaunchKernel" || name == "cudaLaunchKernelExC";
  return std::string(launch ? "cudaLaunchKernel" : name);
}

/// The error that CUDA gives if such a call fails for no fault of its arguments.
cudaError_t likely_error(std::string_view name) {
  if (contains(name, "Malloc") || contains(name, "Alloc") || contains(name, "Register") ||
      contains(name, "Create") || contains(name, "Instantiate"))
    return cudaErrorMemoryAllocation;
  if (contains(name, "LaunchKernel")) return cudaErrorLaunchOutOfResources;
  if (contains(name, "Synchronize") || contains(name, "Query")) return cudaErrorLaunchFailure;
  if (contains(name, "GetDeviceCount")) return cudaErrorNoDevice;
  return contains(name, "SetDevice") ? cudaErrorDevicesUnavailable : cudaErrorInvalidValue;
}

}  // namespace

cudaError_t injected_failure(const char* name) {
  const auto& failures = settings().failures;
  if (failures.empty()) return cudaSuccess;
  static std::mutex mutex;
  static std::map<std::string, std::uint64_t> calls;
  const std::string counted = counted_name(name);
  const std::lock_guard lock(mutex);
  const auto wanted = failures.find(counted);
  if (wanted == failures.end() || ++calls[counted] != wanted->second) return cudaSuccess;
  const auto error = likely_error(counted);
  // Synchronisation reports the fault of a kernel, which stays.
  if (error == cudaErrorLaunchFailure) runtime().fail(error);
  say(text("call ", wanted->second, " of ", counted, " fails as EMULATED_GPU_FAIL asks"));
  return error;
}

}  // namespace emulated_gpu
