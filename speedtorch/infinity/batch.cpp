#include "speedtorch/infinity/batch.h"

#include <ATen/ops/alias.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/narrow.h>

#include <string_view>
#include <utility>

#include "speedtorch/infinity/errors.h"

namespace speedtorch::infinity {
namespace {

void require_samples(const Tensors& tensors, std::int64_t samples, std::string_view what) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.dim() > 0 && tensor.size(0) == samples) continue;
    throw InfinityBatchError("the " + std::string(what) + " of a batch of " + std::to_string(samples) +
                             " samples are a tensor of shape " +
                             (tensor.defined() ? c10::str(tensor.sizes()) : "none") +
                             "; its first dimension must be the samples");
  }
}

/// The same values in another tensor, so that the caller's keeps its shape. alias() does the same, but takes
/// longer, because it records the operation.
at::Tensor another_of(const at::Tensor& tensor) {
  return tensor.requires_grad() ? at::alias(tensor) : tensor.tensor_data();
}

std::int64_t samples_in(const Tensors& inputs) {
  if (inputs.empty() || !inputs.front().defined() || inputs.front().dim() == 0)
    throw InfinityBatchError("a batch needs inputs whose first dimension is the samples");
  return inputs.front().size(0);
}

}  // namespace

Batch::Batch(at::Tensor inputs, at::Tensor targets)
    : Batch(Tensors{std::move(inputs)}, targets.defined() ? Tensors{std::move(targets)} : Tensors{}) {}

Batch::Batch(Tensors inputs, Tensors targets) : samples_(samples_in(inputs)) {
  require_samples(inputs, samples_, "inputs");
  require_samples(targets, samples_, "targets");
  shape_ = shape_of_a_sample(inputs);
  fetch_ = [inputs = std::move(inputs), targets = std::move(targets)](std::int64_t first,
                                                                      std::int64_t count) {
    return Samples{rows_of(inputs, first, count), rows_of(targets, first, count)};
  };
}

Batch::Batch(std::int64_t samples, Fetch fetch) : samples_(samples), fetch_(std::move(fetch)) {
  if (samples < 0 || !fetch_)
    throw InfinityBatchError("a batch needs a number of samples and a way to fetch them");
}

Samples Batch::samples(std::int64_t first, std::int64_t count) const {
  Samples found = fetch_(first, count);
  if (found.inputs.empty())
    throw InfinityBatchError(
        "the fetched samples have no inputs; a batch needs at least one tensor of inputs");
  require_samples(found.inputs, count, "inputs");
  require_samples(found.targets, count, "targets");
  return found;
}

std::string Batch::shape() const { return shape_.empty() ? shape_of_a_sample(samples(0, 1).inputs) : shape_; }

/// Concatenates strings: a stream would cost 3 us per tensor and batch.
std::string shape_of_a_sample(const Tensors& tensors) {
  std::string shape;
  for (const at::Tensor& tensor : tensors) {
    shape += shape.empty() ? "" : "; ";
    shape += c10::toString(tensor.scalar_type());
    shape += '[';
    for (std::int64_t axis = 1; axis < tensor.dim(); ++axis)
      shape += (axis > 1 ? ", " : "") + std::to_string(tensor.size(axis));
    shape += ']';
  }
  return shape;
}

Tensors rows_of(const Tensors& tensors, std::int64_t first, std::int64_t count) {
  Tensors rows;
  rows.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors)
    rows.push_back(count == tensor.size(0) && first == 0 ? another_of(tensor)
                                                         : at::narrow(tensor, 0, first, count));
  return rows;
}

Tensors concatenated(const std::vector<Tensors>& parts) {
  if (parts.size() == 1) return parts.front();
  Tensors whole;
  for (std::size_t i = 0; i < parts.front().size(); ++i) {
    Tensors of_one;
    for (const Tensors& part : parts) of_one.push_back(part[i]);
    whole.push_back(at::cat(of_one));
  }
  return whole;
}

Tensors on_device(const Tensors& tensors, at::Device device) {
  Tensors moved;
  moved.reserve(tensors.size());
  const bool non_blocking = !device.is_cpu();  // to the host: it would read before the bytes arrive
  for (const at::Tensor& tensor : tensors)
    moved.push_back(tensor.device() == device ? tensor
                                              : tensor.to(device, tensor.scalar_type(), non_blocking));
  return moved;
}

}  // namespace speedtorch::infinity
