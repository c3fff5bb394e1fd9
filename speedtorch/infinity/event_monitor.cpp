#include "speedtorch/infinity/event_monitor.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <utility>

namespace speedtorch::infinity {
namespace {

/// The number of parameters per group. Learning rates and the like may change between steps.
std::vector<std::size_t> group_sizes(const Optimizer& optimizer, const Tensors& parameters) {
  if (!optimizer.stock()) return {parameters.size()};
  std::vector<std::size_t> sizes;
  for (const auto& group : optimizer.stock()->param_groups()) sizes.push_back(group.params().size());
  return sizes;
}

/// `parameter` and the name of parameter i.
std::string name_of(const Model& model, std::size_t i) {
  return "parameter " + model.named_parameters().at(i).name;
}

}  // namespace

EventMonitor::Seen::Seen(const at::Tensor& tensor)
    : parameter(tensor.unsafeGetTensorImpl()),
      sizes(tensor.sizes().vec()),
      dtype(tensor.scalar_type()),
      device(tensor.device()),
      trainable(tensor.requires_grad()) {}

bool EventMonitor::Seen::same_kind(const at::Tensor& tensor) const {
  return tensor.sizes() == sizes && tensor.scalar_type() == dtype && tensor.device() == device &&
         tensor.requires_grad() == trainable;
}

std::string EventMonitor::Seen::kind() const {
  return c10::str(at::IntArrayRef(sizes), " ", dtype, " on ", device, trainable ? "" : ", frozen");
}

void EventMonitor::inspect(const Model& model, const std::vector<Optimizer>& optimizers,
                           const Criterion* criterion) {
  const Tensors parameters = model.parameters();
  inspect_model(model, parameters);
  inspect_optimizers(model, parameters, optimizers);
  std::vector<Reduction> reductions;
  if (criterion)
    for (const auto& part : criterion->parts()) reductions.push_back(part.reduction());
  if (!first_inspection_ && !reductions_.empty() && !reductions.empty() && reductions != reductions_)
    warnings_->warn(Warning::criterion_changed, "the criterion's reduction differs from the previous batch");
  if (!reductions.empty()) reductions_ = std::move(reductions);
  first_inspection_ = false;
}

/// A description of the change; empty if there is none.
std::string EventMonitor::change_to(const Model& model, const Tensors& now) const {
  if (now.size() != parameters_.size())
    return "the model has " + std::to_string(now.size()) + " parameters; in the previous batch it had " +
           std::to_string(parameters_.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (!parameters_[i].same_kind(now[i]))
      return name_of(model, i) + " is " + Seen(now[i]).kind() + "; in the previous batch it was " +
             parameters_[i].kind();
    if (now[i].unsafeGetTensorImpl() != parameters_[i].parameter)
      return name_of(model, i) +
             " is another tensor than in the previous batch: an optimizer that was made before does not have "
             "it";
  }
  return {};
}

void EventMonitor::inspect_model(const Model& model, const Tensors& parameters) {
  const std::string change = change_to(model, parameters);
  const bool training = model.training();
  std::string mode;
  if (change.empty() && training != training_)
    mode = training ? "the model is in training mode; in the previous batch it was in evaluation mode"
                    : "the model is in evaluation mode; in the previous batch it was in training mode";
  if (!first_inspection_ && !(change + mode).empty()) warnings_->warn(Warning::model_changed, change + mode);
  if (!change.empty()) parameters_ = std::vector<Seen>(parameters.begin(), parameters.end());
  training_ = training;
}

void EventMonitor::inspect_optimizers(const Model& model, const Tensors& parameters,
                                      const std::vector<Optimizer>& optimizers) {
  if (optimizers.empty()) return;
  std::vector<const void*> optimized;
  std::vector<std::vector<std::size_t>> groups;
  for (const Optimizer& optimizer : optimizers) {
    const Tensors of_one = optimizer.parameters();
    for (const at::Tensor& parameter : of_one) optimized.push_back(parameter.unsafeGetTensorImpl());
    groups.push_back(group_sizes(optimizer, of_one));
  }
  std::ranges::sort(optimized);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const void* const parameter = parameters[i].unsafeGetTensorImpl();
    if (!parameters[i].requires_grad() || std::ranges::binary_search(optimized, parameter)) continue;
    warnings_->warn(Warning::optimizer_changed, name_of(model, i) +
                                                    " requires a gradient, but no optimizer has "
                                                    "it: it is not trained");
    break;
  }
  if (!first_inspection_ && !groups_.empty() && groups != groups_)
    warnings_->warn(Warning::optimizer_changed,
                    "the optimizers' groups of parameters differ from the previous batch");
  groups_ = std::move(groups);
}

void EventMonitor::batch_made() {
  if (waiting_for_gradients_ > 0)
    warnings_->warn(Warning::missing_backward,
                    "outputs of a second batch were made before backward() of the first");
  ++waiting_for_gradients_;
}

void EventMonitor::gradients_made() {
  waiting_for_gradients_ = 0;
  if (stepped_)
    warnings_->warn(
        Warning::missing_zero_grad,
        "gradients are added to those that a step has used already: zero_grad() is missing after step()");
  else if (batches_with_gradients_ > 0)
    warnings_->warn(
        Warning::missing_step,
        "gradients of a second batch are added to those of the first: step() is missing after backward()");
  ++batches_with_gradients_;
}

void EventMonitor::stepping(bool there) {
  if (!there)
    warnings_->warn(Warning::missing_backward,
                    "a step without any gradient: backward() is missing before step()");
  else if (stepped_ && batches_with_gradients_ == 0)
    warnings_->warn(Warning::missing_backward,
                    "a second step with the same gradients: backward() is missing before it");
  stepped_ = true;
  batches_with_gradients_ = 0;
  waiting_for_gradients_ = 0;
}

void EventMonitor::gradients_dropped() {
  stepped_ = false;
  batches_with_gradients_ = 0;
}

void EventMonitor::zeroing() {
  if (batches_with_gradients_ > 0 && !stepped_)
    warnings_->warn(Warning::missing_step, "gradients are dropped that no step has used: step() is missing");
  stepped_ = false;
  batches_with_gradients_ = 0;
}

}  // namespace speedtorch::infinity
