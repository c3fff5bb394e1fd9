#include "tests/emulated_gpu/runtime/operators_loader.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/settings.h"

namespace emulated_gpu {

void load_operators() {
  static std::atomic<bool> done{settings().operators.empty()};
  if (done) return;
  void* const cuda_half = ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  if (cuda_half == nullptr) return;
  ::dlclose(cuda_half);
  if (done.exchange(true)) return;  // also for the calls that the library itself makes while it is loaded
  if (::dlopen(settings().operators.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    refuse(text("EMULATED_GPU_TORCH: ", ::dlerror()));
}

}  // namespace emulated_gpu
