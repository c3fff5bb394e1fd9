#include "speedtorch/infinity/criterion.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/sum.h>

#include "speedtorch/infinity/errors.h"

namespace speedtorch::infinity {

Criterion Criterion::weighted(std::vector<std::pair<std::string, Criterion>> criteria,
                              std::vector<double> factors) {
  if (criteria.empty() || criteria.size() != factors.size())
    throw InfinityBatchError(std::to_string(criteria.size()) + " criteria with " +
                             std::to_string(factors.size()) + " factors; each needs one");
  Criterion all;
  for (std::size_t i = 0; i < criteria.size(); ++i) {
    for (Part part : criteria[i].second.parts_) {
      part.name =
          criteria[i].second.parts_.size() == 1 ? criteria[i].first : criteria[i].first + "." + part.name;
      part.factor *= factors[i];
      all.parts_.push_back(std::move(part));
    }
  }
  return all;
}

Reduction Criterion::reduction() const {
  const Reduction first = parts_.front().reduction();
  for (const Part& part : parts_)
    if (part.reduction() != first || (parts_.size() > 1 && first == Reduction::mean && part.weight))
      return Reduction::coupled;
  return first;
}

bool Criterion::weighs_targets() const { return static_cast<bool>(parts_.front().weight); }

Tensors Criterion::tensors() const {
  Tensors all;
  for (const Part& part : parts_)
    for (const at::Tensor& tensor : part.tensors()) all.push_back(tensor);
  return all;
}

double Criterion::weight(const Tensors& targets, std::int64_t samples) const {
  return weighs_targets() ? parts_.front().weight(targets) : static_cast<double>(samples);
}

at::Tensor Criterion::operator()(const Tensors& outputs, const Tensors& targets, Tensors* of_parts) const {
  at::Tensor total;
  for (const Part& part : parts_) {
    at::Tensor loss = part.loss(outputs, targets);
    if (!loss.defined() || loss.dim() != 0)
      throw InfinityBatchError("the criterion gave " +
                               (loss.defined() ? "a tensor of shape " + c10::str(loss.sizes()) : "nothing") +
                               "; a loss is one number without dimensions; take its mean() or sum()");
    if (of_parts && parts_.size() > 1) of_parts->push_back(loss.detach());
    if (part.factor != 1) loss = loss * part.factor;
    total = total.defined() ? total + loss : loss;
  }
  return total;
}

Reduction Criterion::reduction_named(const std::string& name) {
  if (name == "kSum") return Reduction::sum;
  if (name == "kMean" || name == "kBatchMean") return Reduction::mean;
  throw InfinityBatchError("the criterion's reduction is " + name +
                           ", which gives one loss per sample; take kMean or kSum");
}

double Criterion::class_weights(const at::Tensor& weights, std::int64_t ignored, const Tensors& targets) {
  const at::Tensor& target = targets.at(0);
  if (at::isFloatingType(target.scalar_type()))
    return static_cast<double>(target.size(0));  // class probabilities
  const at::Tensor counted = at::masked_select(target, at::ne(target, ignored));
  if (!weights.defined()) return static_cast<double>(counted.numel());
  return weights.index_select(0, counted).sum(at::kDouble).item<double>();
}

void Criterion::refuse(std::size_t outputs, std::size_t targets) {
  throw InfinityBatchError("the criterion does not take " + std::to_string(outputs) + " outputs and " +
                           std::to_string(targets) + " targets");
}

}  // namespace speedtorch::infinity
