#include "speedtorch/infinity/two_passes.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <string>
#include <utility>

#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity/layer_watch.h"
#include "speedtorch/infinity/marks.h"
#include "speedtorch/infinity/replay.h"

namespace speedtorch::infinity {
namespace {

constexpr const char* kLoss = "the loss of all outputs of the batch";

/// The gradients of the loss with respect to all outputs.
Tensors gradients_of(const at::Tensor& loss, const Tensors& by) {
  if (!loss.requires_grad())
    throw InfinityBatchError("the criterion's loss does not depend on the model's outputs");
  return torch::autograd::grad({loss}, by, {}, std::nullopt, false, /*allow_unused=*/true);
}

void set_loss(BatchResult& result, const at::Tensor& loss, const Tensors& parts) {
  result.loss = loss.item().toDouble();
  result.of_parts.clear();
  for (const at::Tensor& part : parts) result.of_parts.push_back(part.item().toDouble());
}

void keep_outputs(BatchResult& result, const Replay& replay) {
  result.outputs = replay.outputs();
  result.targets = replay.targets();
}

Marks marks_of_inputs(const Tensors& inputs) {
  std::vector<NamedTensor> named;
  for (const at::Tensor& input : inputs) named.push_back({"input " + std::to_string(named.size()), input});
  return Marks(std::move(named));
}

/// Marks of the tensors that a second pass reads again. While any module trains, the second pass sets all
/// buffers to their values of the first, so they may change in between.
Marks marks_of_model(const Model& model) {
  auto named = model.named_parameters();
  for (NamedTensor& parameter : named) parameter.name.insert(0, "parameter ");
  if (!model.any_training())
    for (NamedTensor& buffer : model.named_buffers())
      named.push_back({"buffer " + buffer.name, std::move(buffer.tensor)});
  return Marks(std::move(named));
}

/// Sets the modes of modules (training or evaluation), and sets them back at the end of the scope.
class ModesOfScope {
 public:
  ModesOfScope(const Model& model, const Model::Modes& modes) : before_(model.modes()) {
    Model::set_modes(modes);
  }
  ~ModesOfScope() { Model::set_modes(before_); }
  ModesOfScope(const ModesOfScope&) = delete;
  ModesOfScope& operator=(const ModesOfScope&) = delete;

 private:
  Model::Modes before_;
};

/// The autograd node behind differentiable_outputs(): runs the second pass when the outputs' gradients come.
class Recompute final : public torch::autograd::Node {
 public:
  Recompute(std::shared_ptr<MicroBatchContext> context, Batch batch, Marks given, Replay replay,
            const Tensors& inputs)
      : context_(std::move(context)),
        batch_(std::move(batch)),
        given_(std::move(given)),
        used_(marks_of_model(context_->model)),
        modes_(context_->model.modes()),
        replay_(std::move(replay)),
        parameters_(context_->model.trainable()) {
    Tensors by = parameters_;
    by.insert(by.end(), inputs.begin(), inputs.end());
    set_next_edges(torch::autograd::collect_next_edges(by));
    replay_.drop_outputs();
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (at::GradMode::is_enabled())
      throw InfinityBatchError("gradients of gradients (create_graph) do not go through micro-batches");
    require_unchanged();
    const ModesOfScope modes(context_->model, modes_);
    BatchRun run(*context_, batch_, true);
    GradientSum sum(parameters_);
    std::vector<Tensors> of_inputs;
    if (!replay_.backward(run, gradients, sum, &of_inputs))
      throw OutOfMemory(
          "memory ran out in the backward pass of a model that draws random numbers, whose "
          "micro-batches cannot be split; they are smaller from now on: call batch() again");
    if (context_->hooks.on_gradients) context_->hooks.on_gradients();
    Tensors all = sum.take();
    const std::size_t inputs = of_inputs.front().size();
    run.retry_after_oom("the gradients of the inputs", [&] {
      const Tensors whole = inputs > 0 ? concatenated(of_inputs) : Tensors{};
      all.resize(parameters_.size());
      all.insert(all.end(), whole.begin(), whole.end());
    });
    return all;
  }

  std::string name() const override { return "InfinityBatchBackward"; }

 private:
  /// @throws InfinityBatchError
  void require_unchanged() const {
    for (const Marks* marks : {&given_, &used_})
      if (const std::string changed = marks->changed(); !changed.empty())
        throw InfinityBatchError(changed +
                                 " was changed in batch() or after it; the backward pass runs the model "
                                 "again and needs it unchanged");
  }

  std::shared_ptr<MicroBatchContext> context_;
  Batch batch_;
  Marks given_;         ///< of the inputs, before the first pass
  Marks used_;          ///< of the model, after it
  Model::Modes modes_;  ///< of the first pass
  Replay replay_;
  Tensors parameters_;
};

}  // namespace

bool normalises_by_batch_statistics(BatchRun& run) {
  if (run.options().batch_norm != BatchNorm::exact) return false;
  const at::NoGradGuard no_grad;
  bool found = false;
  run.retry_after_oom("a micro-batch as small as may be", [&] {
    const Undo undo(run.model(), run.device());
    const LayerWatch watch;
    try {
      const Samples few = run.batch().samples(0, std::min(run.least(), run.batch().size()));
      static_cast<void>(run.model()(on_device(few.inputs, run.device())));
    } catch (...) {
      undo.restore();
      throw;
    }
    undo.restore();
    run.judge_instance_norm(watch);
    found = watch.saw_batch_statistics();
  });
  return found;
}

void two_passes(BatchRun& run, bool by_batch_statistics, const Criterion& criterion, GradientSum& sum,
                bool keep) {
  for (;;) {
    Replay replay = Replay::first_pass(run, by_batch_statistics);
    run.result.micro_batches = 0;
    Tensors gradients;
    run.retry_after_oom(kLoss, [&] {
      Tensors leaves;
      for (const at::Tensor& output : replay.outputs())
        leaves.push_back(output.detach().requires_grad_(output.is_floating_point()));
      Tensors parts;
      const at::Tensor loss = criterion(leaves, replay.targets(), &parts);
      gradients = gradients_of(loss, leaves);
      set_loss(run.result, loss, parts);
    });
    if (replay.backward(run, gradients, sum, nullptr)) {
      if (keep) keep_outputs(run.result, replay);
      return;
    }
    // The random draws belong to micro-batches that no longer fit: start again with smaller ones.
    sum.take();
    replay.undo();
  }
}

void evaluate_all_outputs(BatchRun& run, bool by_batch_statistics, const Criterion& criterion, bool keep) {
  const Replay replay = Replay::first_pass(run, by_batch_statistics);
  run.retry_after_oom(kLoss, [&] {
    Tensors parts;
    const at::Tensor loss = criterion(replay.outputs(), replay.targets(), &parts);
    set_loss(run.result, loss, parts);
  });
  if (keep) keep_outputs(run.result, replay);
}

Tensors differentiable_outputs(const std::shared_ptr<MicroBatchContext>& context, const Tensors& inputs) {
  const bool with_gradients = at::GradMode::is_enabled();
  BatchRun run(*context, Batch(inputs), with_gradients);
  Marks given = marks_of_inputs(inputs);
  const bool by_batch_statistics = normalises_by_batch_statistics(run);
  Replay replay = Replay::first_pass(run, by_batch_statistics);
  Tensors made = replay.outputs();
  if (!with_gradients) return made;
  Tensors differentiable_inputs;
  for (const at::Tensor& input : inputs)
    if (input.requires_grad()) differentiable_inputs.push_back(input);
  const auto node = std::make_shared<Recompute>(context, run.batch(), std::move(given), std::move(replay),
                                                differentiable_inputs);
  for (at::Tensor& output : made) {
    output = output.variable_data();  // a tensor of its own, because a model may return one of its inputs
    if (output.is_floating_point())
      torch::autograd::set_history(output, node);
    else
      node->add_input_metadata(torch::autograd::Node::undefined_input());
  }
  return made;
}

}  // namespace speedtorch::infinity
