#include "tests/emulated_gpu/runtime/launch.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "tests/emulated_gpu/fault.h"
#include "tests/emulated_gpu/runtime/device.h"
#include "tests/emulated_gpu/runtime/messages.h"

namespace emulated_gpu {
namespace {

/// The memory that kernels of one device may touch.
class DeviceView : public MemoryView {
 public:
  explicit DeviceView(int device) : device_(device) {}

  Range range_of(std::uint64_t address) const override {
    auto& all = runtime();
    const std::lock_guard lock(all.mutex);
    const auto* const memory = all.memory.find(reinterpret_cast<const void*>(address));
    if (memory == nullptr || !all.memory.reachable(*memory, device_)) return {};
    return {memory->base, memory->end(), memory->host, memory->read_only, memory->written};
  }

  std::string neighbours(std::uint64_t address) const override {
    auto& all = runtime();
    const std::lock_guard lock(all.mutex);
    const auto* const pointer = reinterpret_cast<const void*>(address);
    const auto* const memory = all.memory.find(pointer);
    std::string found = all.memory.neighbours(pointer);
    if (memory != nullptr && !all.memory.reachable(*memory, device_))
      found += text(", to which device ", device_, " has no peer access");
    return found;
  }

 private:
  int device_;
};

std::string shape_text(const LaunchShape& shape) {
  const auto& [grid, block, shared] = shape;
  return text("grid ", grid.x, " x ", grid.y, " x ", grid.z, ", block ", block.x, " x ", block.y, " x ",
              block.z, ", ", shared, " bytes of dynamic shared memory");
}

bool within(const dim3& size, unsigned x, unsigned y, unsigned z) {
  return size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= x && size.y <= y && size.z <= z;
}

cudaError_t check_shape(const Kernel& kernel, const RegisteredFunction& function, const LaunchShape& shape) {
  const auto& [grid, block, shared] = shape;
  const auto threads = std::uint64_t{block.x} * block.y * block.z;
  cudaError_t error = cudaSuccess;
  if (!within(grid, 2147483647, 65535, 65535) || !within(block, 1024, 1024, 64) ||
      threads > most_threads_of_block) {
    error = cudaErrorInvalidConfiguration;
  } else if (threads > kernel.most_threads || shared + kernel.static_shared > shared_of_block_at_most ||
             shared > function.most_dynamic_shared) {
    error = cudaErrorInvalidValue;
  }
  if (error != cudaSuccess) {
    say(text("cannot launch ", kernel.name, ": ", shape_text(shape), "; it was built for blocks of ",
             kernel.most_threads, " threads and may have ", function.most_dynamic_shared, " bytes"));
  }
  return error;
}

Dim dim_of(const dim3& size) { return {size.x, size.y, size.z}; }

/// One launch, with a copy of its arguments.
struct Prepared {
  const Kernel* kernel;
  LaunchShape shape;
  int device;
  std::vector<std::byte> parameters;

  void operator()() const;
};

/// Kernels run one at a time: real ones would, too, where the first fills the device.
void Prepared::operator()() const {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  auto& statistics = runtime().statistics;
  const DeviceView view(device);
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15ULL;
  const auto number = ++statistics.launches;
  if (settings().trace) say(text("launch ", number, ": ", kernel->name, ", ", shape_text(shape)));
  const auto begin = std::chrono::steady_clock::now();
  const auto counts = run({.kernel = kernel,
                           .grid = dim_of(shape.grid),
                           .block = dim_of(shape.block),
                           .dynamic_shared = shape.dynamic_shared,
                           .parameters = parameters.data(),
                           .memory = &view,
                           .seed = settings().seed == 0 ? 0 : settings().seed * odd + number,
                           .find_races = settings().find_races,
                           .find_unwritten = settings().find_unwritten});
  statistics.warp_instructions += counts.warp_instructions;
  statistics.thread_instructions += counts.thread_instructions;
  statistics.kernel_milliseconds +=
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

cudaError_t launch(Runtime& all, Lock& lock, const void* host_function, const LaunchShape& shape,
                   void** arguments, cudaStream_t handle) {
  auto* const function = all.kernels.function(host_function);
  if (function == nullptr) {
    say(text("launch of ", host_function, ", which is no kernel"));
    return cudaErrorInvalidDeviceFunction;
  }
  const auto* const stream = all.streams.find(handle, thread_state().device);
  if (stream == nullptr || stream->device != thread_state().device) {
    say(text("launch of ", function->name, " on ",
             stream == nullptr ? "a stream that is none" : "another device's stream", " while device ",
             thread_state().device, " is current"));
    return cudaErrorInvalidResourceHandle;
  }
  const auto* const kernel = Kernels::kernel(*function);
  if (kernel == nullptr) return cudaErrorNoKernelImageForDevice;
  if (const auto error = check_shape(*kernel, *function, shape); error != cudaSuccess) return error;
  Prepared prepared{kernel, shape, stream->device, std::vector<std::byte>(kernel->parameter_bytes)};
  for (std::size_t i = 0; i < kernel->parameters.size(); ++i) {
    const auto& parameter = kernel->parameters[i];
    std::memcpy(prepared.parameters.data() + parameter.offset, arguments[i], parameter.size);
  }
  return enqueue(all, lock, handle, kernel->name, std::move(prepared));
}

int blocks_of_multiprocessor(const Kernel& kernel, int threads, std::size_t dynamic_shared) {
  if (threads <= 0 || static_cast<unsigned>(threads) > kernel.most_threads) return 0;
  const int of_warps = (threads + warp_size - 1) / warp_size * warp_size;
  const auto shared = dynamic_shared + kernel.static_shared;
  if (shared > shared_of_block_at_most) return 0;
  const auto by_shared = static_cast<int>(shared_of_multiprocessor / (shared + reserved_shared));
  return std::min({most_threads_of_multiprocessor / of_warps, most_blocks_of_multiprocessor, by_shared});
}

}  // namespace emulated_gpu
