// The memory of all emulated devices, and the host memory that they may reach.
//
// Device addresses lie in a range of the process that cannot be touched (PROT_NONE): a host that follows a
// device pointer dies at once. The bytes lie elsewhere, in a shared mapping that does not count as the
// process's own data.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "tests/emulated_gpu/memory_view.h"
#include "tests/emulated_gpu/runtime/settings.h"

namespace emulated_gpu {

enum class MemoryKind { device, pinned, registered };

struct Allocation {
  std::uint64_t base = 0, bytes = 0;
  MemoryKind kind = MemoryKind::device;
  int device = 0;
  std::byte* host = nullptr;  ///< where its first byte lies
  bool read_only = false;
  std::uint64_t mapped = 0;         ///< bytes of the mapping that were taken for it
  std::uint8_t* written = nullptr;  ///< one byte per byte; null: not tracked

  [[nodiscard]] std::uint64_t end() const { return base + bytes; }
  [[nodiscard]] bool on_device() const { return kind == MemoryKind::device; }
};

/// Not thread-safe: the runtime's lock guards it.
class Memory {
 public:
  Memory();
  Memory(const Memory&) = delete;

  cudaError_t allocate(int device, std::size_t bytes, void** address);
  cudaError_t allocate_pinned(int device, std::size_t bytes, void** address);
  cudaError_t register_host(int device, void* address, std::size_t bytes, unsigned flags);
  /// The caller has waited for the work that uses it.
  void release(std::uint64_t base);

  /// Returns the allocation that holds an address, or null.
  [[nodiscard]] const Allocation* find(const void* address) const;
  /// Returns the allocation that begins at an address, or null.
  [[nodiscard]] const Allocation* at(const void* address) const;
  /// True for addresses that no host memory has.
  [[nodiscard]] bool is_device_address(const void* address) const;
  [[nodiscard]] std::uint64_t used(int device) const { return used_[static_cast<std::size_t>(device)]; }

  /// Returns where bytes lie on the host, or null and says why if they are not within one allocation. Host
  /// memory that CUDA does not know is taken as it is.
  [[nodiscard]] std::byte* reach(const void* address, std::size_t bytes, const std::string& what) const;
  /// Describes what lies near an address.
  [[nodiscard]] std::string neighbours(const void* address) const;
  /// Marks bytes as written.
  void mark_written(const void* address, std::size_t bytes);
  /// Gives bytes the marks of those that were copied to them.
  void copy_marks(const void* to, const void* from, std::size_t bytes);

  bool enable_peer(int device, int peer) { return peers_.emplace(device, peer).second; }
  bool disable_peer(int device, int peer) { return peers_.erase({device, peer}) != 0; }
  /// True if kernels of `device` may touch the allocation.
  [[nodiscard]] bool reachable(const Allocation& memory, int device) const;

 private:
  void map_bytes();
  void track(Allocation& memory) const;

  std::map<std::uint64_t, Allocation> allocations_;
  std::map<std::uint64_t, std::uint64_t> freed_;  ///< base and bytes of device memory, for messages
  std::set<std::pair<int, int>> peers_;
  std::array<std::uint64_t, max_devices> used_{};
  std::uint64_t first_ = 0, next_ = 0;  ///< of device addresses
  std::byte* bytes_ = nullptr;          ///< where the byte of address first_ lies
  int file_ = -1;
};

}  // namespace emulated_gpu
