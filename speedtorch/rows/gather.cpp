#include "speedtorch/rows/gather.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "speedtorch/error.h"
#include "speedtorch/memory/new_output.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Variable;

at::Tensor new_rows(const at::Tensor& table, const at::Tensor& index) {
  if (table.dim() == 0) throw ShapeError("the table is a scalar; it needs rows");
  const auto row = table.sizes().slice(1);
  auto out = new_output(joined_sizes({index.numel()}, row), table.options().requires_grad(false));
  const at::NoGradGuard unrecorded;
  gather_rows(table, index, out);
  return index.dim() == 1 ? out : out.view(joined_sizes(index.sizes(), row));
}

/// Gather and Accumulate are each other's derivative.
struct Accumulate;

struct Gather : Function<Gather> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table, const at::Tensor& index) {
    context->save_for_backward({index});
    context->saved_data["rows"] = table.size(0);
    return new_rows(table, index);
  }
  static Variable rows_gradient(AutogradContext* context, const Variable& gradient);
  static torch::autograd::variable_list backward(AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {rows_gradient(context, gradients[0]), {}};
  }
};

/// Adds the rows of `values` to zeros of `rows` rows, where the index says.
struct Accumulate : Function<Accumulate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& values, const at::Tensor& index,
                            std::int64_t rows) {
    context->save_for_backward({index});
    const auto row = values.sizes().slice(static_cast<std::size_t>(index.dim()));
    auto sums = at::zeros(joined_sizes({rows}, row), values.options().requires_grad(false));
    const auto flat = values.detach().contiguous().view(joined_sizes({index.numel()}, row));
    scatter_rows(sums, index, flat, Duplicates::accumulate);
    return sums;
  }
  static torch::autograd::variable_list backward(AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {gather_rows(gradients[0].contiguous(), context->get_saved_variables()[0]), {}, {}};
  }
};

Variable Gather::rows_gradient(AutogradContext* context, const Variable& gradient) {
  return Accumulate::apply(gradient, context->get_saved_variables()[0], context->saved_data["rows"].toInt());
}

}  // namespace

at::Tensor gather_rows(const at::Tensor& table, const RowIndex& index) {
  if (table.dim() == 0) throw ShapeError("the table is a scalar; it needs rows");
  const auto numbers = index.numbers(table.size(0), table.device());
  if (table.requires_grad() && at::GradMode::is_enabled()) return Gather::apply(table, numbers);
  return new_rows(table, numbers);
}

}  // namespace speedtorch
