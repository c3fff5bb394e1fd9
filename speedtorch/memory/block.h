/// A block of memory in one placement: exact in bytes, freed by scope, seen as a tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "speedtorch/placement.h"

namespace speedtorch {

/// A block of memory with one owner. Tensors made by `tensor()` share the ownership, and one version counter:
/// a write through any of them is seen by autograd in all, whichever a graph has saved. Unlike LibTorch's own
/// memory, `pinned` memory knows nothing of streams: keep it until the streams that use it are done. Its end
/// waits for its device, so it must not come while a graph is captured there, and not for other devices.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  [[nodiscard]] virtual Placement placement() const = 0;
  [[nodiscard]] virtual std::byte* data() const = 0;
  /// The device that a tensor on this memory names: `cpu`, or `cuda:N` for `device` memory and the zero-copy
  /// alias of `pinned` memory.
  [[nodiscard]] virtual at::Device device() const { return at::kCPU; }
  /// The descriptor by which another process can map the same bytes (allocate_shared); -1 for private memory.
  [[nodiscard]] virtual int shared_fd() const { return -1; }
  /// The descriptor of the file behind `mapped` memory, which begins at the file's first byte; -1 for others.
  [[nodiscard]] virtual int file_fd() const { return -1; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// True where the processor can follow `data()`.
  [[nodiscard]] bool on_host() const { return placement() != Placement::device; }

  /// A contiguous tensor of shape `sizes` on the first bytes of this memory; the memory lives as long as the
  /// tensor.
  /// @throws ShapeError where the shape needs more than `bytes()`.
  [[nodiscard]] at::Tensor tensor(at::IntArrayRef sizes, at::ScalarType dtype) const {
    return view(sizes, dtype, device());
  }
  /// The same memory as a CPU tensor: host placements only. @throws PlacementError for `device` memory.
  [[nodiscard]] at::Tensor host_tensor(at::IntArrayRef sizes, at::ScalarType dtype) const;

 protected:
  explicit Memory(std::int64_t bytes) : bytes_(bytes) {}
  /// The bytes of `beneath` once more, as another device sees them: with its version counter.
  explicit Memory(const std::shared_ptr<Memory>& beneath)
      : bytes_(beneath->bytes_), version_(beneath->version_) {}

 private:
  [[nodiscard]] at::Tensor view(at::IntArrayRef sizes, at::ScalarType dtype, at::Device on) const;
  /// A tensor on the first bytes, of which there are enough, that keeps them alive.
  [[nodiscard]] virtual at::Tensor new_view(at::IntArrayRef sizes, at::ScalarType dtype, at::Device on) const;
  std::int64_t bytes_;
  /// Never written after construction: views copy the pointer to the counter, which is atomic, so any thread
  /// may make one.
  c10::VariableVersion version_{0};
};

}  // namespace speedtorch
