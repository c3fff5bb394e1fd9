#include "speedtorch/infinity/micro_batches.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity/layer_watch.h"
#include "speedtorch/infinity/loss_sum.h"
#include "speedtorch/infinity/memory_monitor.h"
#include "speedtorch/infinity/out_of_memory.h"

namespace speedtorch::infinity {
namespace {

Tensors detached(const Tensors& tensors, at::Device device) {
  Tensors found;
  for (const at::Tensor& tensor : tensors) found.push_back(tensor.detach());
  return on_device(found, device);
}

/// The loss of all outputs, differentiated by them.
Tensors gradients_of(const at::Tensor& loss, const Tensors& by) {
  if (!loss.requires_grad())
    throw InfinityBatchError("the criterion's loss does not depend on the model's outputs");
  return torch::autograd::grad({loss}, by, {}, std::nullopt, false, /*allow_unused=*/true);
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
}

}  // namespace

/// What an attempt changes besides its results: the random generators, and the buffers that a module in
/// training writes (running statistics).
class MicroBatches::Undo {
 public:
  Undo(const Model& model, at::Device device) : random_(device) {
    const at::NoGradGuard no_grad;
    if (!model.training()) return;
    for (const NamedTensor& buffer : model.named_buffers())
      buffers_.emplace_back(buffer.tensor, buffer.tensor.clone());
  }

  void restore() const {
    const at::NoGradGuard no_grad;
    random_.restore();
    for (auto [buffer, before] : buffers_) buffer.copy_(before);
  }

 private:
  RandomState random_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

/// What it takes to run the micro-batches of a batch again as they ran the first time.
struct MicroBatches::Replay {
  struct Step {
    std::int64_t first;
    std::int64_t count;
    RandomState random;  ///< before it
  };
  Batch batch;
  bool drew_random = false;  ///< then the steps must be the same again, else the micro-batches may differ
  std::vector<Step> steps;
  Tensors outputs;
  Tensors targets;
};

/// Whether the losses of the first two micro-batches make up the loss of both.
class MicroBatches::Check {
 public:
  /// @returns what is wrong, once two were given; empty where nothing is
  std::string add(const Criterion& criterion, const Tensors& outputs, const Tensors& targets,
                  const at::Tensor& loss, double weight) {
    const at::NoGradGuard no_grad;
    losses_.push_back(loss.item().toDouble());
    weights_.push_back(weight);
    outputs_.push_back(outputs);
    targets_.push_back(targets);
    if (losses_.size() < 2) return {};
    const auto both = [](const std::vector<Tensors>& parts) {
      Tensors joined;
      for (std::size_t i = 0; i < parts[0].size(); ++i) joined.push_back(at::cat({parts[0][i], parts[1][i]}));
      return joined;
    };
    const double whole = criterion(both(outputs_), both(targets_)).item().toDouble();
    const bool mean = criterion.reduction() == Reduction::mean;
    const double total = mean ? weights_[0] + weights_[1] : 1;
    const double a = losses_[0] * (mean ? weights_[0] : 1) / total;
    const double b = losses_[1] * (mean ? weights_[1] : 1) / total;
    const double rounding = 1e-3 * std::max(std::abs(a) + std::abs(b), std::abs(whole));
    if (!(std::abs(whole - a - b) > rounding)) return {};
    return "the loss of two micro-batches is " + std::to_string(whole) + " together and " +
           std::to_string(a + b) +
           " made up of both: if samples' losses depend on each other, say Reduction::coupled";
  }

 private:
  std::vector<double> losses_;
  std::vector<double> weights_;
  std::vector<Tensors> outputs_;
  std::vector<Tensors> targets_;
};

MicroBatches::MicroBatches(Model model, MicroBatchesOptions options, std::shared_ptr<Warnings> warnings)
    : model_(std::move(model)),
      options_(std::move(options)),
      warnings_(std::move(warnings)),
      sizes_(options_.micro_batch),
      criterion_checked_(!options_.check_criterion),
      prefetch_(options_.prefetch ? std::make_unique<Prefetch>() : nullptr) {}

void MicroBatches::begin(const Batch& batch, bool with_gradients) {
  if (batch.size() == 0) throw InfinityBatchError("the batch has no samples");
  device_ = model_.device();
  with_gradients_ = with_gradients;
  refusals_ = 0;
  looked_at_batch_norm_ = false;
  if (prefetch_) prefetch_->forget();
  twice("one sample", [&] {
    key_ = (with_gradients ? "gradients of " : "outputs of ") + shape_of_a_sample(batch.samples(0, 1).inputs);
  });
}

Samples MicroBatches::fetch(const Batch& batch, std::int64_t first, std::int64_t count) const {
  if (prefetch_) return prefetch_->take(batch, first, count, device_, output_device());
  const Samples samples = batch.samples(first, count);
  return {on_device(samples.inputs, device_), on_device(samples.targets, output_device())};
}

/// The model's outputs, where the loss is computed. In the first micro-batch of each batch it is seen whether
/// a batch normalisation takes statistics of the samples, be it a module or a function.
Tensors MicroBatches::forward(const Tensors& inputs) {
  if (looked_at_batch_norm_) return on_device(model_(inputs), output_device());
  const LayerWatch watch;
  Tensors outputs = on_device(model_(inputs), output_device());
  looked_at_batch_norm_ = true;
  if (!watch.saw_batch_statistics()) return outputs;
  if (options_.batch_norm == BatchNorm::refuse)
    throw InfinityBatchError(
        "the model's batch normalisation takes statistics of its samples, and those of a micro-batch are not "
        "the "
        "batch's: take group or layer normalisation, or put its modules into evaluation mode, or say "
        "BatchNorm::per_micro_batch to have each micro-batch normalised by itself");
  warnings_->warn(Warning::batch_norm,
                  "batch normalisation takes the statistics of each micro-batch, and its running "
                  "statistics move once a micro-batch");
  return outputs;
}

Tensors MicroBatches::joined(const std::vector<Tensors>& parts) const {
  if (parts.size() == 1) return parts.front();
  Tensors whole;
  for (std::size_t i = 0; i < parts.front().size(); ++i) {
    Tensors of_one;
    for (const Tensors& part : parts) of_one.push_back(part[i]);
    whole.push_back(at::cat(of_one));
  }
  return whole;
}

/// The size may grow after a micro-batch that worked; with a budget, as far as what it took says.
void MicroBatches::worked(std::int64_t count, std::int64_t bytes_taken) {
  if (options_.memory_budget == 0) {
    sizes_.worked(key_, count);
    return;
  }
  std::int64_t held = other_bytes ? other_bytes() : 0;
  for (const NamedTensor& parameter :
       model_.named_parameters())  // with its gradient, and the sum of this batch
    held += bytes_of(parameter.tensor) * (parameter.tensor.requires_grad() ? 2 : 1) +
            bytes_of(parameter.tensor.grad());
  sizes_.worked(key_, count, bytes_taken, options_.memory_budget - held - bytes_taken);
}

bool MicroBatches::attempted(std::int64_t first, std::int64_t count, BatchResult& result,
                             const Attempt& attempt) {
  std::optional<Undo> undo;
  std::optional<MemoryMonitor> monitor;
  const auto guarded = [&] {
    undo.emplace(model_, device_);
    std::optional<MemoryMonitor::Watch> watch;
    if (options_.memory_budget > 0) watch.emplace(monitor.emplace());
    std::optional<Offload> offload;
    if (options_.offload_at_least > 0)
      offload.emplace(options_.offload_at_least, model_.trainable(), offloaded_);
    attempt(first, count);
  };
  bool ended = false;
  try {
    ended = had_memory_for(guarded);
  } catch (...) {
    if (undo) undo->restore();
    throw;
  }
  if (ended) {
    ++result.micro_batches;
    result.largest_micro_batch = std::max(result.largest_micro_batch, count);
    // The first of two passes takes less than the second, which is the one to be sized.
    if (!with_gradients_ || at::GradMode::is_enabled())
      worked(count, monitor ? monitor->figures(device_).peak_bytes : 0);
    if (on_micro_batch) on_micro_batch({first, count, true});
    return true;
  }
  if (undo) undo->restore();
  ++refusals_;
  free_cached_memory(device_);
  const auto answer = sizes_.ran_out(key_, count);
  if (answer == MicroBatchSize::Answer::give_up)
    throw OutOfMemory("a micro-batch of " + std::to_string(count) + " samples of " + key_ +
                      " does not fit into memory; no gradient was changed");
  if (answer == MicroBatchSize::Answer::smaller)
    warnings_->warn(Warning::smaller, "memory ran out with " + std::to_string(count) +
                                          " samples; from now on " + std::to_string(sizes_.of(key_)));
  if (on_micro_batch) on_micro_batch({first, count, false});
  return false;
}

void MicroBatches::each(std::int64_t samples, BatchResult& result, const Attempt& attempt) {
  for (std::int64_t first = 0; first < samples;) {
    const std::int64_t count = std::min(sizes_.of(key_), samples - first);
    if (attempted(first, count, result, attempt)) first += count;
  }
}

/// For what cannot be made smaller: once more with LibTorch's cache emptied.
void MicroBatches::twice(const std::string& what, const std::function<void()>& work) {
  for (int tries = 0; tries < 2; ++tries) {
    if (had_memory_for(work)) return;
    ++refusals_;
    free_cached_memory(device_);
  }
  throw OutOfMemory(what + " does not fit into memory; no gradient was changed");
}

BatchResult MicroBatches::backward(const Batch& batch, const Criterion& criterion, bool keep_outputs) {
  begin(batch, true);
  BatchResult result{.samples = batch.size()};
  GradientSum sum(model_.trainable());
  if (sum.parameters().empty())
    throw InfinityBatchError("the model has no parameter that requires a gradient");
  const at::AutoGradMode with_gradients(true);
  if (criterion.reduction() == Reduction::coupled)
    two_passes(batch, criterion, sum, result, keep_outputs);
  else
    one_pass(batch, criterion, &sum, result, keep_outputs);
  twice("the sum of gradients", [&] { sum.publish(); });
  result.refusals = refusals_;
  if (on_gradients) on_gradients();
  return result;
}

BatchResult MicroBatches::evaluate(const Batch& batch, const Criterion& criterion, bool keep_outputs) {
  begin(batch, false);
  BatchResult result{.samples = batch.size()};
  const at::NoGradGuard no_grad;
  if (criterion.reduction() == Reduction::coupled)
    evaluate_coupled(batch, criterion, result, keep_outputs);
  else
    one_pass(batch, criterion, nullptr, result, keep_outputs);
  result.refusals = refusals_;
  return result;
}

/// @param sum null: the loss only
void MicroBatches::one_pass(const Batch& batch, const Criterion& criterion, GradientSum* sum,
                            BatchResult& result, bool keep) {
  const bool mean = criterion.reduction() == Reduction::mean;
  // What a mean is divided by is known at the end only where targets weigh: sums are divided then.
  const double known = mean && !criterion.weighs_targets() ? static_cast<double>(batch.size()) : 1;
  double total_weight = 0;
  LossSum losses;
  std::vector<LossSum> of_parts(criterion.parts().size());
  std::vector<Tensors> kept;
  Check check;
  each(batch.size(), result, [&](std::int64_t first, std::int64_t count) {
    const Samples samples = fetch(batch, first, count);
    const Tensors outputs = forward(samples.inputs);
    Tensors parts;
    const at::Tensor loss = criterion(outputs, samples.targets, &parts);
    const double weight = mean ? criterion.weight(samples.targets, count) : 1;
    const double factor = weight / known;
    Tensors copy = keep ? detached(outputs, output_device()) : Tensors{};
    if (sum && weight != 0) {
      if (!loss.requires_grad())
        throw InfinityBatchError("the loss does not depend on any trainable parameter");
      sum->add(torch::autograd::grad({loss}, sum->parameters(), {at::full_like(loss, factor)}, std::nullopt,
                                     false,
                                     /*allow_unused=*/true));
    }
    // From here on nothing asks for memory of the device.
    total_weight += weight;
    if (weight != 0) losses.add(loss.detach(), factor);
    for (std::size_t i = 0; i < parts.size(); ++i) of_parts[i].add(parts[i], factor);
    if (keep) kept.push_back(std::move(copy));
    if (criterion_checked_ || !sum) return;
    const bool added = had_memory_for([&] {
      const std::string wrong =
          check.add(criterion, detached(outputs, output_device()), samples.targets, loss.detach(), weight);
      if (!wrong.empty()) warnings_->warn(Warning::coupled_criterion, wrong);
    });
    if (added)
      criterion_checked_ = first > 0;
    else
      check = {};
  });
  const double divisor = mean && criterion.weighs_targets() ? total_weight : 1;
  if (sum && divisor != 1 && divisor != 0) twice("the sum of gradients", [&] { sum->scale(1 / divisor); });
  result.loss = losses.value() / divisor;
  for (std::size_t i = 0; criterion.parts().size() > 1 && i < of_parts.size(); ++i)
    result.of_parts.push_back(of_parts[i].value() / divisor);
  if (keep) twice("the outputs of the batch", [&] { result.outputs = joined(kept); });
}

/// The outputs of all micro-batches, without a graph.
MicroBatches::Replay MicroBatches::first_pass(const Batch& batch, BatchResult& result) {
  const at::NoGradGuard no_grad;
  Replay replay{.batch = batch};
  const RandomState before(device_);
  std::vector<Tensors> outputs;
  std::vector<Tensors> targets;
  each(batch.size(), result, [&](std::int64_t first, std::int64_t count) {
    RandomState random(device_);
    const Samples samples = fetch(batch, first, count);
    Tensors made = forward(samples.inputs);
    replay.steps.push_back({first, count, std::move(random)});
    outputs.push_back(std::move(made));
    targets.push_back(samples.targets);
  });
  replay.drew_random = !(RandomState(device_) == before);
  twice("the outputs of the batch", [&] {
    replay.outputs = joined(outputs);
    replay.targets = joined(targets);
  });
  return replay;
}

void MicroBatches::two_passes(const Batch& batch, const Criterion& criterion, GradientSum& sum,
                              BatchResult& result, bool keep) {
  std::optional<Undo> start;
  twice("the state of the model's buffers", [&] { start.emplace(model_, device_); });
  for (;;) {
    const Replay replay = first_pass(batch, result);
    result.micro_batches = 0;
    Tensors gradients;
    twice("the loss of all outputs of the batch", [&] {
      Tensors leaves;
      for (const at::Tensor& output : replay.outputs)
        leaves.push_back(output.detach().requires_grad_(output.is_floating_point()));
      Tensors parts;
      const at::Tensor loss = criterion(leaves, replay.targets, &parts);
      gradients = gradients_of(loss, leaves);
      result.loss = loss.item().toDouble();
      result.of_parts.clear();
      for (const at::Tensor& part : parts) result.of_parts.push_back(part.item().toDouble());
    });
    if (second_pass(replay, gradients, sum, result, nullptr)) {
      if (keep) result.outputs = replay.outputs;
      return;
    }
    // Random draws belong to the micro-batches that have become too large: all is done again with smaller
    // ones.
    sum.take();
    start->restore();
  }
}

/// The gradients of parameters (and of the inputs that require one) by this micro-batch.
Tensors MicroBatches::replayed(const Replay& replay, const Tensors& gradients, const Tensors& parameters,
                               std::int64_t first, std::int64_t count) {
  Samples samples = fetch(replay.batch, first, count);
  Tensors by = parameters;
  for (at::Tensor& input : samples.inputs) {
    if (!input.requires_grad()) continue;
    input = input.detach().requires_grad_();
    by.push_back(input);
  }
  const Tensors outputs = forward(samples.inputs);
  Tensors roots;
  Tensors seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
    roots.push_back(outputs[i]);
    seeds.push_back(gradients[i].narrow(0, first, count).to(outputs[i].device()));
  }
  if (roots.empty()) return Tensors(by.size());
  return torch::autograd::grad(roots, by, seeds, std::nullopt, false, /*allow_unused=*/true);
}

/// False where the steps must be the same again and one has become too large.
bool MicroBatches::second_pass(const Replay& replay, const Tensors& gradients, GradientSum& sum,
                               BatchResult& result, std::vector<Tensors>* of_inputs) {
  const at::AutoGradMode with_gradients(true);
  std::optional<Undo> now;
  twice("the state of the model's buffers", [&] { now.emplace(model_, device_); });
  const auto attempt = [&](std::int64_t first, std::int64_t count) {
    Tensors all = replayed(replay, gradients, sum.parameters(), first, count);
    const auto inputs = all.begin() + static_cast<std::ptrdiff_t>(sum.parameters().size());
    Tensors by_inputs(std::make_move_iterator(inputs), std::make_move_iterator(all.end()));
    all.erase(inputs, all.end());
    sum.add(std::move(all));
    if (of_inputs) of_inputs->push_back(std::move(by_inputs));
  };
  bool all_fit = true;
  if (!replay.drew_random) {
    each(replay.batch.size(), result, attempt);
  } else {
    for (const Replay::Step& step : replay.steps) {
      const auto again = [&] {
        step.random.restore();
        return attempted(step.first, step.count, result, attempt);
      };
      while (all_fit && !again()) all_fit = sizes_.of(key_) >= step.count;
    }
  }
  now->restore();
  return all_fit;
}

void MicroBatches::evaluate_coupled(const Batch& batch, const Criterion& criterion, BatchResult& result,
                                    bool keep) {
  const Replay replay = first_pass(batch, result);
  twice("the loss of all outputs of the batch", [&] {
    Tensors parts;
    result.loss = criterion(replay.outputs, replay.targets, &parts).item().toDouble();
    result.of_parts.clear();
    for (const at::Tensor& part : parts) result.of_parts.push_back(part.item().toDouble());
  });
  if (keep) result.outputs = replay.outputs;
}

/// The node behind outputs(): it makes the gradients of parameters and inputs when those of the outputs come.
class MicroBatches::Recompute final : public torch::autograd::Node {
 public:
  Recompute(std::shared_ptr<MicroBatches> owner, Replay replay, Tensors parameters, Tensors inputs)
      : owner_(std::move(owner)), replay_(std::move(replay)), parameters_(std::move(parameters)) {
    Tensors by = parameters_;
    by.insert(by.end(), inputs.begin(), inputs.end());
    set_next_edges(torch::autograd::collect_next_edges(by));
    replay_.outputs.clear();  // they hold this node
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (at::GradMode::is_enabled())
      throw InfinityBatchError("gradients of gradients (create_graph) do not go through micro-batches");
    owner_->begin(replay_.batch, true);
    GradientSum sum(parameters_);
    std::vector<Tensors> of_inputs;
    BatchResult result;
    if (!owner_->second_pass(replay_, gradients, sum, result, &of_inputs))
      throw OutOfMemory(
          "memory ran out in the backward pass of a model that draws random numbers, where the "
          "micro-batches cannot be split; they are smaller from now on: make the batch again");
    Tensors all = sum.take();
    const std::size_t inputs = of_inputs.front().size();
    owner_->twice("the gradients of the inputs", [&] {
      const Tensors whole = inputs > 0 ? owner_->joined(of_inputs) : Tensors{};
      all.resize(parameters_.size());
      all.insert(all.end(), whole.begin(), whole.end());
    });
    if (owner_->on_gradients) owner_->on_gradients();
    return all;
  }

  std::string name() const override { return "InfinityBatchBackward"; }

 private:
  std::shared_ptr<MicroBatches> owner_;
  Replay replay_;
  Tensors parameters_;
};

Tensors MicroBatches::outputs(const Tensors& inputs) {
  const Batch batch(inputs);
  const bool with_gradients = at::GradMode::is_enabled();
  begin(batch, with_gradients);
  BatchResult result;
  Replay replay = first_pass(batch, result);
  Tensors made = replay.outputs;
  if (!with_gradients) return made;
  Tensors differentiable_inputs;
  for (const at::Tensor& input : inputs)
    if (input.requires_grad()) differentiable_inputs.push_back(input);
  const auto node = std::make_shared<Recompute>(shared_from_this(), std::move(replay), model_.trainable(),
                                                std::move(differentiable_inputs));
  for (at::Tensor& output : made) {
    output = output.variable_data();  // a tensor of its own: a model may hand out one of its inputs
    if (output.is_floating_point())
      torch::autograd::set_history(output, node);
    else
      node->add_input_metadata(torch::autograd::Node::undefined_input());
  }
  return made;
}

}  // namespace speedtorch::infinity
