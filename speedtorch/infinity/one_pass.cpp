#include "speedtorch/infinity/one_pass.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity/loss_sum.h"
#include "speedtorch/infinity/out_of_memory.h"

namespace speedtorch::infinity {
namespace {

Tensors detached(const Tensors& tensors, at::Device device) {
  Tensors found;
  for (const at::Tensor& tensor : tensors) found.push_back(tensor.detach());
  return on_device(found, device);
}

/// Adds the gradients of a micro-batch. Adds nothing if it throws.
void add_gradients(const at::Tensor& loss, double factor, GradientSum& sum) {
  if (!loss.requires_grad()) throw InfinityBatchError("the loss does not depend on any trainable parameter");
  // full_like() takes longer for one number: it makes a tensor and fills it.
  const at::Tensor factors =
      loss.dim() == 0 ? at::scalar_tensor(factor, loss.options()) : at::full_like(loss, factor);
  sum.add(torch::autograd::grad({loss}, sum.parameters(), {factors}, std::nullopt, false,
                                /*allow_unused=*/true));
}

/// Checks whether the losses of the first two micro-batches add up to the loss of both.
class CriterionCheck {
 public:
  [[nodiscard]] bool done() const { return losses_.size() == 2; }

  /// @returns a description of the difference, after the second micro-batch; empty if there is none
  std::string add(const Criterion& criterion, const Tensors& outputs, const Tensors& targets,
                  const at::Tensor& loss, double weight) {
    const at::NoGradGuard no_grad;
    losses_.push_back(loss.item().toDouble());
    weights_.push_back(weight);
    outputs_.push_back(outputs);
    targets_.push_back(targets);
    if (losses_.size() < 2) return {};
    const double whole = criterion(concatenated(outputs_), concatenated(targets_)).item().toDouble();
    const bool mean = criterion.reduction() == Reduction::mean;
    const double total = mean ? weights_[0] + weights_[1] : 1;
    const double a = losses_[0] * (mean ? weights_[0] : 1) / total;
    const double b = losses_[1] * (mean ? weights_[1] : 1) / total;
    const double rounding = 1e-3 * std::max(std::abs(a) + std::abs(b), std::abs(whole));
    if (!(std::abs(whole - a - b) > rounding)) return {};
    return "the loss of two micro-batches is " + std::to_string(whole) + " together and " +
           std::to_string(a + b) +
           " as the sum of both: if the loss of a sample depends on other samples, set Reduction::coupled";
  }

 private:
  std::vector<double> losses_;
  std::vector<double> weights_;
  std::vector<Tensors> outputs_;
  std::vector<Tensors> targets_;
};

/// Adds a micro-batch to the check. The check ends with its second micro-batch, or if it lacks memory.
void check_criterion(BatchRun& run, CriterionCheck& check, const Criterion& criterion, const Tensors& outputs,
                     const Tensors& targets, const at::Tensor& loss, double weight) {
  const bool added = had_memory_for([&] {
    const std::string wrong =
        check.add(criterion, detached(outputs, run.output_device()), targets, loss.detach(), weight);
    if (!wrong.empty()) run.warn(Warning::coupled_criterion, wrong);
  });
  if (added && !check.done()) return;
  run.context().criterion_checked = added;
  check = {};
}

}  // namespace

void one_pass(BatchRun& run, const Criterion& criterion, GradientSum* sum, bool keep) {
  LossOfBatch losses(criterion, run.batch().size());
  std::vector<Tensors> kept;
  std::vector<Tensors> kept_targets;
  CriterionCheck check;
  run.for_each_micro_batch([&](std::int64_t first, std::int64_t count) {
    const Samples samples = run.fetch(first, count);
    const Tensors outputs = run.forward(samples.inputs);
    Tensors parts;
    const at::Tensor loss = criterion(outputs, samples.targets, &parts);
    const double weight = losses.weight(samples.targets, count);
    Tensors copy = keep ? detached(outputs, run.output_device()) : Tensors{};
    if (sum && weight != 0) add_gradients(loss, losses.factor(weight), *sum);
    // From here on nothing needs device memory, except the check, which may be skipped.
    losses.add(loss, parts, weight);
    if (keep) {
      kept.push_back(std::move(copy));
      kept_targets.push_back(samples.targets);
    }
    // A micro-batch that is the whole batch has nothing to be compared with.
    if (!run.context().criterion_checked && sum && count < run.batch().size())
      check_criterion(run, check, criterion, outputs, samples.targets, loss, weight);
  });
  const double divisor = losses.divisor();
  if (sum && divisor != 1 && divisor != 0)
    run.retry_after_oom("the sum of gradients", [&] { sum->scale(1 / divisor); });
  run.result.loss = losses.value();
  run.result.of_parts = losses.of_parts();
  if (keep)
    run.retry_after_oom("the outputs of the batch", [&] {
      run.result.outputs = concatenated(kept);
      run.result.targets = concatenated(kept_targets);
    });
}

}  // namespace speedtorch::infinity
