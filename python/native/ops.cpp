// The operators torch.ops.speedtorch.*, with kernels for CPU and CUDA tensors, shapes for tensors without
// data (Meta, which torch.compile traces with), and derivatives.
//
// Operators that write to an operand bump its version counter themselves, and the library refuses writes that
// autograd would have to record. So their Autograd kernels only refuse tangents, which the library does not
// see.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "python/native/bindings.h"
#include "python/native/ops.h"
#include "speedtorch/error.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/gather.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tensors.h"

namespace speedtorch::python {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor gather(const at::Tensor& table, const at::Tensor& index, bool /*sparse_grad*/) {
  const at::NoGradGuard unrecorded;
  return speedtorch::gather_rows(table, RowIndex(index));
}

void gather_out(const at::Tensor& table, const at::Tensor& index, at::Tensor& out) {
  speedtorch::gather_rows(table, index, out);
}

void scatter(at::Tensor& table, const at::Tensor& index, const at::Tensor& values,
             c10::string_view duplicates) {
  speedtorch::scatter_rows(table, RowIndex(index), values, duplicates_of(duplicates));
}

/// Zeros of `rows` rows, to which values[i] is added at row index[i].
at::Tensor accumulate(const at::Tensor& values, const at::Tensor& index, std::int64_t rows) {
  const at::NoGradGuard unrecorded;
  const auto row = values.sizes().slice(static_cast<std::size_t>(index.dim()));
  auto sums = at::zeros(joined_sizes({rows}, row), values.options().requires_grad(false));
  const auto flat = values.detach().contiguous().view(joined_sizes({index.numel()}, row));
  speedtorch::scatter_rows(sums, RowIndex(index), flat, Duplicates::accumulate);
  return sums;
}

void sparse_step(at::Tensor& table, at::TensorList states, const at::Tensor& index, const at::Tensor& grad,
                 c10::string_view name, at::ArrayRef<double> options, std::int64_t step) {
  SparseRows rows(table, options_of(name, options.vec()), states.vec());
  rows.set_steps(step - 1);
  rows.step(index, grad);
}

std::tuple<at::Tensor, at::Tensor> distinct(const at::Tensor& index, std::int64_t rows) {
  auto found = speedtorch::distinct_rows(RowIndex(index), rows);
  return {std::move(found.rows), std::move(found.positions)};
}

// Shapes alone.

c10::SymDimVector sizes_of(c10::SymIntArrayRef first, c10::SymIntArrayRef row) {
  c10::SymDimVector sizes(first.begin(), first.end());
  sizes.append(row.begin(), row.end());
  return sizes;
}

at::Tensor gather_meta(const at::Tensor& table, const at::Tensor& index, bool /*sparse_grad*/) {
  TORCH_CHECK_VALUE(table.dim() > 0, "the table is a scalar; it needs rows");
  return at::empty_symint(sizes_of(index.sym_sizes(), table.sym_sizes().slice(1)), table.options());
}

at::Tensor accumulate_meta(const at::Tensor& values, const at::Tensor& index, c10::SymInt rows) {
  const auto row = values.sym_sizes().slice(static_cast<std::size_t>(index.dim()));
  return at::empty_symint(sizes_of({rows}, row), values.options());
}

void gather_out_meta(const at::Tensor&, const at::Tensor&, at::Tensor&) {}
void scatter_meta(at::Tensor&, const at::Tensor&, const at::Tensor&, c10::string_view) {}
void sparse_step_meta(at::Tensor&, at::TensorList, const at::Tensor&, const at::Tensor&, c10::string_view,
                      at::ArrayRef<double>, std::int64_t) {}

// Derivatives. Gather and Accumulate are each other's.

const auto& accumulate_op() {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("speedtorch::_accumulate_rows", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&, c10::SymInt)>();
  return op;
}

/// The gradient of the table as torch's nn.Embedding(sparse=True) has it: not coalesced, without a copy.
at::Tensor sparse_gradient(const at::Tensor& gradient, const at::Tensor& index, const c10::SymInt& rows) {
  const auto row = gradient.sym_sizes().slice(static_cast<std::size_t>(index.dim()));
  return at::_sparse_coo_tensor_unsafe_symint(index.reshape({1, -1}).to(at::kLong),
                                              gradient.reshape_symint(sizes_of({index.sym_numel()}, row)),
                                              sizes_of({rows}, row));
}

struct Gather : Function<Gather> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table, const at::Tensor& index,
                            bool sparse_grad) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({index});
    context->saved_data["rows"] = table.sym_size(0);
    context->saved_data["sparse_grad"] = sparse_grad;
    return gather_op().call(table, index, sparse_grad);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!gradients[0].defined()) return {{}, {}, {}};
    const auto index = context->get_saved_variables()[0];
    const auto rows = context->saved_data["rows"].toSymInt();
    if (context->saved_data["sparse_grad"].toBool())
      return {sparse_gradient(gradients[0], index, rows), {}, {}};
    return {accumulate_op().call(gradients[0], index, rows), {}, {}};
  }
};

/// The forward-mode derivative of a tensor, or an undefined tensor.
const at::Tensor& tangent_of(const at::Tensor& tensor) { return tensor._fw_grad(/*level=*/0); }

/// Applies a linear function to the value of `operand` and to its tangent.
template <class Linear>
at::Tensor with_tangent(const at::Tensor& operand, const at::Tensor& tangent, Linear linear) {
  auto result = linear(operand._fw_primal(/*level=*/0));
  result._set_fw_grad(linear(tangent.contiguous()), /*level=*/0, /*is_inplace_op=*/false);
  return result;
}

at::Tensor gather_autograd(const at::Tensor& table, const at::Tensor& index, bool sparse_grad) {
  if (const auto& tangent = tangent_of(table); tangent.defined()) {
    return with_tangent(table, tangent,
                        [&](const at::Tensor& rows) { return gather_op().call(rows, index, sparse_grad); });
  }
  if (table.requires_grad() && at::GradMode::is_enabled()) return Gather::apply(table, index, sparse_grad);
  const at::AutoDispatchBelowADInplaceOrView below;
  return gather_op().call(table, index, sparse_grad);
}

struct Accumulate : Function<Accumulate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& values, const at::Tensor& index,
                            const c10::SymInt& rows) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({index});
    return accumulate_op().call(values, index, rows);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!gradients[0].defined()) return {{}, {}, {}};
    return {gather_op().call(gradients[0].contiguous(), context->get_saved_variables()[0], false), {}, {}};
  }
};

at::Tensor accumulate_autograd(const at::Tensor& values, const at::Tensor& index, c10::SymInt rows) {
  if (const auto& tangent = tangent_of(values); tangent.defined()) {
    return with_tangent(values, tangent,
                        [&](const at::Tensor& added) { return accumulate_op().call(added, index, rows); });
  }
  if (values.requires_grad() && at::GradMode::is_enabled()) return Accumulate::apply(values, index, rows);
  const at::AutoDispatchBelowADInplaceOrView below;
  return accumulate_op().call(values, index, std::move(rows));
}

// Writes. After their checks they go on to the kernels of the device.

/// @throws AutogradError
void refuse_tangent(const at::Tensor& tensor, const char* name) {
  if (!tangent_of(tensor).defined()) return;
  throw AutogradError(std::string(name) +
                      " has a tangent of forward-mode differentiation, which this write would lose; gather "
                      "into a new tensor, or pass the value alone (torch.autograd.forward_ad.unpack_dual)");
}

void gather_out_autograd(c10::DispatchKeySet keys, const at::Tensor& table, const at::Tensor& index,
                         at::Tensor& out) {
  refuse_tangent(table, "the table");
  refuse_tangent(out, "out");
  const auto below = keys & c10::after_autograd_keyset;
  // Plain host tensors skip a second turn of the dispatcher, which shows in the time of one row.
  if (below.remove(c10::DispatchKey::ADInplaceOrView).highestPriorityTypeId() == c10::DispatchKey::CPU)
    gather_out(table, index, out);
  else
    gather_out_op().redispatch(below, table, index, out);
}

void scatter_autograd(c10::DispatchKeySet keys, at::Tensor& table, const at::Tensor& index,
                      const at::Tensor& values, c10::string_view duplicates) {
  refuse_tangent(table, "the table");
  refuse_tangent(values, "values");
  scatter_op().redispatch(keys & c10::after_autograd_keyset, table, index, values, duplicates);
}

void sparse_step_autograd(c10::DispatchKeySet keys, at::Tensor& table, at::TensorList states,
                          const at::Tensor& index, const at::Tensor& grad, c10::string_view name,
                          at::ArrayRef<double> options, std::int64_t step) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("speedtorch::sparse_step_", "")
                             .typed<void(at::Tensor&, at::TensorList, const at::Tensor&, const at::Tensor&,
                                         c10::string_view, at::ArrayRef<double>, std::int64_t)>();
  refuse_tangent(table, "the table");
  refuse_tangent(grad, "grad");
  op.redispatch(keys & c10::after_autograd_keyset, table, states, index, grad, name, options, step);
}

void add_kernels(torch::Library& library) {
  library.impl("gather_rows", &gather);
  library.impl("gather_rows.out", &gather_out);
  library.impl("scatter_rows_", &scatter);
  library.impl("sparse_step_", &sparse_step);
  library.impl("distinct_rows", &distinct);
  library.impl("_accumulate_rows", &accumulate);
}

/// Passes lazy tensors on to the kernels, which read or refuse them. Torch's fallbacks expect operators that
/// return what they write: with ours, which return nothing, an internal check fails and the process may end.
void add_lazy_kernels(torch::Library& library) {
  for (const auto* name : {"gather_rows", "gather_rows.out", "scatter_rows_", "sparse_step_", "distinct_rows",
                           "_accumulate_rows"})
    library.impl(name, torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY(speedtorch, library) {
  // Python registers the shapes of distinct_rows, which depend on the data.
  library.set_python_module("speedtorch.rows");
  const std::vector<at::Tag> traced{at::Tag::pt2_compliant_tag};
  library.def("gather_rows(Tensor table, Tensor index, *, bool sparse_grad=False) -> Tensor", traced);
  // It returns nothing, because torch.compile refuses custom operators that return an operand.
  library.def("gather_rows.out(Tensor table, Tensor index, *, Tensor(a!) out) -> ()", traced);
  library.def("scatter_rows_(Tensor(a!) table, Tensor index, Tensor values, str duplicates=\"last\") -> ()",
              traced);
  library.def(
      "sparse_step_(Tensor(a!) table, Tensor(b!)[] states, Tensor index, Tensor grad, str name, "
      "float[] options, int step) -> ()",
      traced);
  library.def("distinct_rows(Tensor index, int rows) -> (Tensor, Tensor)",
              {at::Tag::pt2_compliant_tag, at::Tag::dynamic_output_shape});
  library.def("_accumulate_rows(Tensor values, Tensor index, SymInt rows) -> Tensor", traced);
}

TORCH_LIBRARY_IMPL(speedtorch, CPU, library) { add_kernels(library); }
TORCH_LIBRARY_IMPL(speedtorch, CUDA, library) { add_kernels(library); }

TORCH_LIBRARY_IMPL(speedtorch, Conjugate, library) { add_lazy_kernels(library); }
TORCH_LIBRARY_IMPL(speedtorch, Negative, library) { add_lazy_kernels(library); }
TORCH_LIBRARY_IMPL(speedtorch, ZeroTensor, library) { add_lazy_kernels(library); }

TORCH_LIBRARY_IMPL(speedtorch, Meta, library) {
  library.impl("gather_rows", &gather_meta);
  library.impl("gather_rows.out", &gather_out_meta);
  library.impl("scatter_rows_", &scatter_meta);
  library.impl("sparse_step_", &sparse_step_meta);
  library.impl("_accumulate_rows", &accumulate_meta);
}

TORCH_LIBRARY_IMPL(speedtorch, Autograd, library) {
  library.impl("gather_rows", &gather_autograd);
  library.impl("_accumulate_rows", &accumulate_autograd);
  library.impl("gather_rows.out", &gather_out_autograd);
  library.impl("scatter_rows_", &scatter_autograd);
  library.impl("sparse_step_", &sparse_step_autograd);
  library.impl("distinct_rows", torch::CppFunction::makeFallthrough());
}

}  // namespace

const GatherOp& gather_op() {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("speedtorch::gather_rows", "").typed<GatherRows>();
  return op;
}

const GatherOutOp& gather_out_op() {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("speedtorch::gather_rows", "out").typed<GatherRowsOut>();
  return op;
}

const ScatterOp& scatter_op() {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("speedtorch::scatter_rows_", "").typed<ScatterRows>();
  return op;
}

}  // namespace speedtorch::python
