#include "speedtorch/infinity/gradient_sum.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <utility>

namespace speedtorch::infinity {
namespace {

constexpr int kBlock = 32;  ///< micro-batches

bool is_dense(const at::Tensor& tensor) { return tensor.layout() == at::kStrided; }

/// True if no other tensor shares the memory and the storage has no more bytes than the tensor. Gradients of
/// a linear layer are views (transposed, reshaped) that hold their base; then no other tensor may share the
/// base.
bool is_alone(const at::Tensor& tensor) {
  if (tensor.use_count() > 1 || tensor.storage().nbytes() != tensor.nbytes()) return false;
  if (!tensor.is_view()) return tensor.storage().use_count() <= 1;
  return tensor.storage().use_count() <= 2 && tensor._base().use_count() <= 1 &&
         tensor.is_alias_of(tensor._base());
}

/// True if the tensor is only marked as conjugated or negated. Adding to such a tensor allocates.
bool is_marked(const at::Tensor& tensor) { return tensor.is_conj() || tensor.is_neg(); }

/// Returns a tensor for in-place addition, in the parameter's layout and not shared. A backward pass may
/// return the same memory twice (a + b), or an expanded number.
at::Tensor owned(at::Tensor gradient, const at::Tensor& parameter) {
  if (!is_dense(gradient)) return gradient;
  if (is_alone(gradient) && gradient.strides() == parameter.strides() &&
      gradient.is_non_overlapping_and_dense() && !is_marked(gradient))
    return gradient.is_view() ? gradient.variable_data() : gradient;
  const bool keep_strides = parameter.is_non_overlapping_and_dense();
  at::Tensor copy = keep_strides
                        ? at::empty_strided(parameter.sizes(), parameter.strides(), gradient.options())
                        : at::empty(parameter.sizes(), gradient.options());
  copy.copy_(gradient);
  return copy;
}

/// The new tensors of `into` after adding `more`; undefined if `more` is added in place or undefined.
Tensors replacements(const Tensors& into, const Tensors& more) {
  Tensors ready(into.size());
  for (std::size_t i = 0; i < into.size(); ++i) {
    if (!more[i].defined()) continue;
    if (!into[i].defined())
      ready[i] = more[i];
    else if (!is_dense(into[i]) || !is_dense(more[i]))
      ready[i] = at::add(into[i], more[i]);
  }
  return ready;
}

/// Adds `more` to `into`, or swaps the two if `into` has no tensor. Allocates before it changes anything.
void add_all(Tensors& into, Tensors& more) {
  if (std::ranges::none_of(into, [](const at::Tensor& tensor) { return tensor.defined(); })) {
    into.swap(more);
    return;
  }
  Tensors ready = replacements(into, more);
  for (std::size_t i = 0; i < into.size(); ++i) {
    if (ready[i].defined())
      into[i] = std::move(ready[i]);
    else if (more[i].defined())
      into[i].add_(more[i]);
  }
}

}  // namespace

GradientSum::GradientSum(Tensors parameters)
    : parameters_(std::move(parameters)), sums_(parameters_.size()), total_(parameters_.size()) {}

/// Adds the block's sums to the total. All or nothing.
void GradientSum::fold() {
  add_all(total_, sums_);
  sums_.assign(parameters_.size(), {});
  in_sums_ = 0;
}

void GradientSum::add(Tensors gradients) {
  const at::NoGradGuard no_grad;
  if (in_sums_ == kBlock) fold();
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    if (!sums_[i].defined())
      gradients[i] = owned(std::exchange(gradients[i], {}), parameters_[i]);
    else if (is_dense(gradients[i]) && is_marked(gradients[i]))
      gradients[i] = gradients[i].resolve_conj().resolve_neg();
  }
  add_all(sums_, gradients);
  ++in_sums_;
}

void GradientSum::scale(double factor) {
  const at::NoGradGuard no_grad;
  fold();
  Tensors factors(total_.size());  // allocated first: multiplying by a number allocates a tensor
  Tensors scaled(total_.size());
  for (std::size_t i = 0; i < total_.size(); ++i) {
    if (!total_[i].defined()) continue;
    if (is_dense(total_[i]))
      factors[i] = at::scalar_tensor(factor, at::TensorOptions(total_[i].scalar_type()));
    else
      scaled[i] = at::mul(total_[i], factor);
  }
  for (std::size_t i = 0; i < total_.size(); ++i) {
    if (factors[i].defined()) total_[i].mul_(factors[i]);
    if (scaled[i].defined()) total_[i] = std::move(scaled[i]);
  }
}

void GradientSum::publish() {
  const at::NoGradGuard no_grad;
  fold();
  Tensors gradients;
  for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
  add_all(gradients, total_);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) parameters_[i].mutable_grad() = std::move(gradients[i]);
  total_.assign(parameters_.size(), {});
}

Tensors GradientSum::take() {
  const at::NoGradGuard no_grad;
  fold();
  return std::exchange(total_, Tensors(parameters_.size()));
}

}  // namespace speedtorch::infinity
