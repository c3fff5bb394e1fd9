// The functions of emulated_gpu.h.
#include "tests/emulated_gpu/runtime/cuda_api.h"

#include "tests/emulated_gpu/runtime/runtime.h"

using namespace emulated_gpu;

namespace {

/// Work of a caller that is not C++. Copies share it; the last one releases it.
class Foreign {
 public:
  Foreign(void (*work)(void*), void (*release)(void*), void* argument)
      : work_(work), release_(release), argument_(argument) {}
  Foreign(const Foreign&) = delete;
  ~Foreign() {
    if (release_ != nullptr) release_(argument_);
  }
  void run() const {
    if (work_ != nullptr) work_(argument_);
  }

 private:
  void (*work_)(void*);
  void (*release_)(void*);
  void* argument_;
};

}  // namespace

extern "C" {

const int emulated_gpu_marker = 1;

void* emulated_gpu_bytes(const void* device) {
  auto& all = runtime();
  const std::lock_guard lock(all.mutex);
  const auto* const memory = all.memory.find(device);
  if (memory != nullptr) return memory->host + (reinterpret_cast<std::uint64_t>(device) - memory->base);
  return all.memory.is_device_address(device) ? nullptr : const_cast<void*>(device);
}

void emulated_gpu_wrote(const void* device, std::size_t bytes) {
  if (!settings().find_unwritten) return;
  auto& all = runtime();
  const std::lock_guard lock(all.mutex);
  all.memory.mark_written(device, bytes);
}

int emulated_gpu_is_capturing(cudaStream_t handle) {
  auto& all = runtime();
  const std::lock_guard lock(all.mutex);
  const auto* const stream = all.streams.find(handle, thread_state().device);
  return stream != nullptr && stream->capture != nullptr ? 1 : 0;
}

cudaError_t emulated_gpu_enqueue(cudaStream_t stream, const char* what, void (*work)(void*),
                                 void (*release)(void*), void* argument) {
  // Outlives the lock, so that a release on an error comes without it.
  const auto foreign = std::make_shared<Foreign>(work, release, argument);
  return call(__func__, [&](Runtime& all, Lock& lock) {
    ++all.statistics.operators;
    return enqueue(all, lock, stream, what, [foreign] { foreign->run(); });
  });
}

int emulated_gpu_has_context(int device) {
  auto& all = runtime();
  const std::lock_guard lock(all.mutex);
  return device >= 0 && device < max_devices && all.contexts[static_cast<std::size_t>(device)] ? 1 : 0;
}

unsigned long long emulated_gpu_launches(void) { return runtime().statistics.launches; }

}  // extern "C"
