// CUDA tensors as the operators' CPU kernels see them: CPU tensors over the same bytes.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace emulated_gpu {

/// The storages of one call. CUDA tensors that share a storage share one on the host too, so that the
/// kernels' checks for overlapping arguments work.
class HostStorages {
 public:
  /// Returns a storage over the bytes of device memory at `address`.
  c10::Storage at(const void* address, std::size_t bytes);

 private:
  std::vector<std::pair<const void*, c10::Storage>> storages_;
};

/// A tensor argument of deferred work. Like the arguments of a real launch it holds an address and a
/// geometry, and no reference to CUDA memory: freed memory can be reused, and a missing wait shows.
class FrozenTensor {
 public:
  /// Copies the values of a host tensor, and notes where a CUDA tensor lies.
  explicit FrozenTensor(const at::Tensor& tensor);

  /// Returns a CPU tensor over the same bytes, or the copied values.
  /// @throws Fault if the device memory does not exist any more.
  at::Tensor on_host(HostStorages& storages) const;

  /// Copies `values` to the device memory and marks it as written. Undefined tensors are skipped.
  void store(const at::Tensor& values) const;

  /// Marks the elements as written.
  void mark_written() const;

 private:
  std::size_t span() const;
  void mark_dimension(std::size_t dimension, const char* first, std::size_t item) const;

  at::Tensor host_;  // a host tensor's values; undefined for a CUDA tensor
  bool on_device_ = false;
  const char* storage_ = nullptr;
  std::size_t storage_bytes_ = 0;
  std::vector<std::int64_t> sizes_, strides_;
  std::int64_t offset_ = 0;
  caffe2::TypeMeta type_;
  bool conjugated_ = false, negated_ = false, wrapped_number_ = false;
};

/// Returns a tensor of the same geometry and type on `device` whose values are zeros on the CPU and do not
/// exist on the meta device.
at::Tensor shadow_of(const at::Tensor& tensor, at::DeviceType device);

/// Returns a copy with the same strides.
at::Tensor strided_copy(const at::Tensor& tensor);

}  // namespace emulated_gpu
