#include "tests/emulated_gpu/torch/host_tensor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/emulated_gpu/emulated_gpu.h"
#include "tests/emulated_gpu/fault.h"

namespace emulated_gpu {
namespace {

void copy_flags(const at::Tensor& from, const at::Tensor& to) {
  to._set_conj(from.is_conj());
  to._set_neg(from.is_neg());
  if (from.unsafeGetTensorImpl()->is_wrapped_number()) to.unsafeGetTensorImpl()->set_wrapped_number(true);
}

}  // namespace

c10::Storage HostStorages::at(const void* address, std::size_t bytes) {
  for (const auto& [known, storage] : storages_)
    if (known == address) return storage;
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       c10::DataPtr(emulated_gpu_bytes(address), at::Device(at::kCPU)),
                       /*allocator=*/nullptr, /*resizable=*/false);
  storages_.emplace_back(address, storage);
  return storage;
}

FrozenTensor::FrozenTensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  if (!tensor.is_cuda()) {
    host_ = strided_copy(tensor);
    return;
  }
  on_device_ = true;
  storage_ = static_cast<const char*>(tensor.storage().data());
  storage_bytes_ = tensor.storage().nbytes();
  sizes_ = tensor.sizes().vec();
  strides_ = tensor.strides().vec();
  offset_ = tensor.storage_offset();
  type_ = tensor.dtype();
  conjugated_ = tensor.is_conj();
  negated_ = tensor.is_neg();
  wrapped_number_ = tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

std::size_t FrozenTensor::span() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < sizes_.size(); ++d) {
    if (sizes_[d] == 0) return 0;
    last += (sizes_[d] - 1) * strides_[d];
  }
  return static_cast<std::size_t>(last + 1) * type_.itemsize();
}

at::Tensor FrozenTensor::on_host(HostStorages& storages) const {
  if (!on_device_) return host_;
  const auto bytes = span();
  if (bytes == 0)
    return at::empty_strided(sizes_, strides_, at::TensorOptions().dtype(type_).device(at::kCPU));
  const char* const first = storage_ + static_cast<std::size_t>(offset_) * type_.itemsize();
  for (const char* const edge : {first, first + bytes - 1})
    if (emulated_gpu_bytes(edge) == nullptr) {
      char where[32];
      std::snprintf(where, sizeof where, "%p", static_cast<const void*>(edge));
      throw Fault(700, std::string("a tensor's byte at ") + where + " lies in no device memory");
    }
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(storages.at(storage_, storage_bytes_),
                                                         c10::DispatchKeySet(c10::DispatchKey::CPU), type_);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes_, strides_, offset_);
  tensor._set_conj(conjugated_);
  tensor._set_neg(negated_);
  if (wrapped_number_) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

void FrozenTensor::store(const at::Tensor& values) const {
  if (!on_device_ || !values.defined()) return;
  HostStorages storages;
  const auto there = on_host(storages);
  if (there.sizes() != values.sizes())
    throw Fault(719, "the CPU kernel's result has the sizes " + c10::str(values.sizes()) +
                         ", the CUDA result was made with " + c10::str(there.sizes()));
  there.copy_(values);
  mark_written();
}

void FrozenTensor::mark_dimension(std::size_t dimension, const char* first, std::size_t item) const {
  // The dimensions from here on that lie in one piece are marked at once.
  std::int64_t dense = 1;
  for (std::size_t d = sizes_.size(); d > dimension; --d) {
    if (sizes_[d - 1] != 1 && strides_[d - 1] != dense) {
      dense = -1;
      break;
    }
    dense *= sizes_[d - 1];
  }
  if (dense >= 0) {
    emulated_gpu_wrote(first, static_cast<std::size_t>(dense) * item);
    return;
  }
  for (std::int64_t i = 0; i < sizes_[dimension]; ++i)
    mark_dimension(dimension + 1, first + static_cast<std::size_t>(i * strides_[dimension]) * item, item);
}

void FrozenTensor::mark_written() const {
  if (!on_device_ || span() == 0) return;
  const auto item = type_.itemsize();
  mark_dimension(0, storage_ + static_cast<std::size_t>(offset_) * item, item);
}

at::Tensor shadow_of(const at::Tensor& tensor, at::DeviceType device) {
  if (!tensor.defined()) return tensor;
  auto shadow = at::empty_strided(tensor.sizes(), tensor.strides(),
                                  at::TensorOptions().dtype(tensor.dtype()).device(device));
  if (device == at::kCPU && shadow.storage().nbytes() > 0)
    std::fill_n(static_cast<char*>(shadow.storage().mutable_data()), shadow.storage().nbytes(), '\0');
  copy_flags(tensor, shadow);
  return shadow;
}

at::Tensor strided_copy(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  auto copy = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
  copy_flags(tensor, copy);
  copy.copy_(tensor);
  return copy;
}

}  // namespace emulated_gpu
