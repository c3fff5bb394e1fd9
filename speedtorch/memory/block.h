/// A block of memory in one placement: exact in bytes, freed by its owner, viewed as tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "speedtorch/placement.h"

namespace speedtorch {

/// A block of memory with shared ownership. The tensors of `tensor()` own it too, and share one version
/// counter: autograd sees a write through any of them, whichever tensor a graph has saved.
///
/// Unlike LibTorch's memory, `pinned` memory does not know streams. Keep it until the streams that use it are
/// done. Its destructor waits for its device, so do not destroy it while a graph is captured there. It does
/// not wait for other devices.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  [[nodiscard]] virtual Placement placement() const = 0;
  [[nodiscard]] virtual std::byte* data() const = 0;
  /// The device of tensors on this memory: `cpu`, or `cuda:N` for `device` memory and the zero-copy alias of
  /// `pinned` memory.
  [[nodiscard]] virtual at::Device device() const { return at::kCPU; }
  /// The descriptor through which another process can map the same bytes (allocate_shared); -1 for private
  /// memory.
  [[nodiscard]] virtual int shared_fd() const { return -1; }
  /// The descriptor of the file behind `mapped` memory; -1 for others.
  [[nodiscard]] virtual int file_fd() const { return -1; }
  /// The byte of that file at which the memory begins.
  [[nodiscard]] virtual std::int64_t file_offset() const { return 0; }
  /// False if a write would end the process (SIGSEGV). is_read_only() then recognises the tensors.
  [[nodiscard]] virtual bool writable() const { return true; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// @throws FileError if the file behind the memory has shrunk: touching the bytes behind its end would end
  /// the process
  virtual void check() const {}
  /// @throws FileError for a file that is open `read_only`, AccessError for the memory of another process's
  /// table that this process may not write; a write would end the process
  virtual void require_writable() const {}
  /// True if the CPU can access `data()`.
  [[nodiscard]] bool on_host() const { return placement() != Placement::device; }

  /// A contiguous tensor of shape `sizes` on the first bytes of this memory. The memory lives as long as the
  /// tensor.
  /// @throws ShapeError if the shape needs more than `bytes()`
  [[nodiscard]] at::Tensor tensor(at::IntArrayRef sizes, at::ScalarType dtype) const {
    return view(sizes, dtype, device());
  }
  /// The same memory as a CPU tensor, for host placements only. @throws PlacementError for `device` memory
  [[nodiscard]] at::Tensor host_tensor(at::IntArrayRef sizes, at::ScalarType dtype) const;

 protected:
  explicit Memory(std::int64_t bytes) : bytes_(bytes) {}
  /// The bytes of `beneath` as another device sees them, with the same version counter.
  explicit Memory(const std::shared_ptr<Memory>& beneath)
      : bytes_(beneath->bytes_), version_(beneath->version_) {}

 private:
  [[nodiscard]] at::Tensor view(at::IntArrayRef sizes, at::ScalarType dtype, at::Device on) const;
  /// Returns a tensor on the first bytes that keeps them alive. The caller has checked that they suffice.
  [[nodiscard]] virtual at::Tensor new_view(at::IntArrayRef sizes, at::ScalarType dtype, at::Device on) const;
  std::int64_t bytes_;
  /// Never written after construction. Views copy the pointer to the counter, which is atomic, so any thread
  /// may create one.
  c10::VariableVersion version_{0};
};

/// Frees what a tensor on read-only memory holds of it.
void release_read_only(void* owner);

/// True for a tensor on Memory that is not writable(), or a view of one. LibTorch has no such tensors, so it
/// is told by the function that frees the storage.
inline bool is_read_only(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.storage().data_ptr().get_deleter() == &release_read_only;
}

[[noreturn, gnu::noinline, gnu::cold]] void refuse_read_only(const std::string& name);

/// For operands that are written. @throws FileError naming `name` for memory that is not writable()
inline void check_writable(const at::Tensor& tensor, const char* name) {
  if (is_read_only(tensor)) refuse_read_only(name);
}

}  // namespace speedtorch
