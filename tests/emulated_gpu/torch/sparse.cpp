#include "tests/emulated_gpu/torch/sparse.h"

#include <ATen/SparseTensorImpl.h>
#include <ATen/cuda/EmptyTensor.h>
#include <ATen/ops/_indices.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_values.h>
#include <c10/cuda/CUDAGuard.h>

#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "tests/emulated_gpu/torch/deferred.h"
#include "tests/emulated_gpu/torch/random.h"

namespace emulated_gpu {
namespace {

at::SparseTensorImpl& sparse_impl(const at::Tensor& tensor) {
  return *static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

at::Tensor dense_on_host(const at::Tensor& tensor) {
  HostStorages storages;
  const auto there = FrozenTensor(tensor).on_host(storages);
  const KernelScope scope;
  return strided_copy(there);
}

at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  if (!tensor.is_sparse()) return dense_on_host(tensor);
  const auto indices = dense_on_host(tensor._indices()), values = dense_on_host(tensor._values());
  const KernelScope scope;
  return at::_sparse_coo_tensor_unsafe(indices, values, tensor.sizes(), values.options().layout(at::kSparse),
                                       tensor.is_coalesced());
}

/// Returns a CUDA tensor that gets the values in the order of the stream.
at::Tensor dense_on_device(const at::Tensor& values, at::Device device) {
  if (!values.defined()) return values;
  const at::Tensor tensor =
      at::detail::empty_strided_cuda(values.sizes(), values.strides(), values.scalar_type(), device);
  defer("a sparse operator's result", [to = FrozenTensor(tensor), values] { to.store(values); });
  return tensor;
}

at::Tensor on_device(const at::Tensor& tensor, at::Device device) {
  if (!tensor.defined() || !tensor.is_sparse()) return dense_on_device(tensor, device);
  const auto indices = dense_on_device(tensor._indices(), device),
             values = dense_on_device(tensor._values(), device);
  return at::_sparse_coo_tensor_unsafe(indices, values, tensor.sizes(), values.options().layout(at::kSparse),
                                       tensor.is_coalesced());
}

/// Brings what the operator made of an argument to the device.
void store(const at::Tensor& argument, const at::Tensor& host) {
  if (!argument.defined() || !argument.is_cuda()) return;
  if (!argument.is_sparse()) {
    if (argument.sizes() != host.sizes()) argument.resize_(host.sizes());
    defer("a sparse operator's result", [to = FrozenTensor(argument), host] { to.store(host); });
    return;
  }
  const auto made = on_device(host, argument.device());
  auto& impl = sparse_impl(argument);
  impl.raw_resize_(host.sparse_dim(), host.dense_dim(), host.sizes());
  impl.set_indices_and_values_unsafe(made._indices(), made._values());
  impl.set_coalesced(host.is_coalesced());
}

}  // namespace

void run_sparse_operator(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  const Call call(op, *stack);
  const c10::cuda::CUDAGuard guard(call.device());
  wait_for_stream();
  std::vector<std::pair<at::Tensor, at::Tensor>> written;  // the CUDA tensor, its copy on the host
  auto values = call.stack_for(at::kCPU, draw_seed(call), [&](const at::Tensor& tensor, bool is_written) {
    for (const auto& [known, host] : written)
      if (known.is_same(tensor)) return host;
    auto host = on_host(tensor);
    if (is_written) written.emplace_back(tensor, host);
    return host;
  });
  {
    const KernelScope scope;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::SparseCPU), &values);
  }
  for (const auto& [tensor, host] : written) store(tensor, host);
  for (std::size_t r = 0; r < values.size(); ++r) {
    const auto argument = call.returned_argument(r);
    stack->push_back(argument ? call.arguments()[*argument]
                              : with_tensors(values[r], [&](const at::Tensor& tensor) {
                                  return on_device(tensor, call.device());
                                }));
  }
}

bool keeps_sparse_kernel(const c10::OperatorHandle& op) {
  static const std::set<std::string_view> kept{
      "aten::_coalesced_",
      "aten::_dimI",
      "aten::_dimV",
      "aten::_indices",
      "aten::_nnz",
      "aten::_pin_memory",
      "aten::_values",
      "aten::copy_sparse_to_sparse_",
      "aten::dense_dim",
      "aten::empty",
      "aten::indices",
      "aten::is_coalesced",
      "aten::resize_as_sparse_",
      "aten::sparse_dim",
      "aten::sparse_resize_",
      "aten::sparse_resize_and_clear_",
      "aten::values",
      "aten::clone",
      "aten::_sparse_coo_tensor_with_dims",
      "aten::_sparse_coo_tensor_with_dims_and_tensors",
      "aten::zero_",
      "aten::is_pinned",
      "aten::empty_like",
  };
  return kept.count(op.operator_name().name) != 0;
}

}  // namespace emulated_gpu
