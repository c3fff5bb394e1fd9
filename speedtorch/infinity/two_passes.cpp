// What needs all outputs of a batch before the first gradient: losses that couple samples, losses of the
// user's own, and batch normalisation by the statistics of the whole batch. The micro-batches run again for
// the gradients.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity/layer_watch.h"
#include "speedtorch/infinity/micro_batches.h"
#include "speedtorch/infinity/out_of_memory.h"
#include "speedtorch/infinity/replay.h"

namespace speedtorch::infinity {
namespace {

/// The loss of all outputs, differentiated by them.
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

}  // namespace

/// Whether the model's batch normalisation is to be by the batch's statistics: seen in a run of a few
/// samples, which leaves nothing behind.
bool MicroBatches::takes_statistics(const Batch& batch) {
  if (options_.batch_norm != BatchNorm::exact) return false;
  if (takes_statistics_) return *takes_statistics_;
  const at::NoGradGuard no_grad;
  bool found = false;
  twice("a micro-batch as small as may be", [&] {
    const Undo undo(model_, device_);
    const LayerWatch watch;
    try {
      const Samples few = batch.samples(0, std::min(least(), batch.size()));
      static_cast<void>(model_(on_device(few.inputs, device_)));
    } catch (...) {
      undo.restore();
      throw;
    }
    undo.restore();
    found = watch.saw_batch_statistics();
  });
  takes_statistics_ = found;
  return found;
}

Tensors MicroBatches::forward_of(const Replay& replay, const Tensors& inputs) {
  if (!replay.statistics) return forward(inputs);
  return on_device(replay.statistics->run(model_, inputs, BatchStatistics::Pass::use), output_device());
}

/// Each micro-batch once more, as it was where the model drew random numbers. False where one of those has
/// become too large.
bool MicroBatches::again(const Replay& replay, BatchResult& result, const Attempt& attempt) {
  if (!replay.drew_random) {
    each(replay.batch.size(), result, attempt);
    return true;
  }
  for (const Replay::Step& step : replay.steps) {
    do {
      if (most_of(samples_ - step.first) < step.count) return false;
      step.random.restore();
    } while (!attempted(step.first, step.count, result, attempt));
  }
  return true;
}

/// The same from the buffers that the first pass began with. What they are now, and the generators, is put
/// back.
bool MicroBatches::again_from_the_start(const Replay& replay, BatchResult& result, const Attempt& attempt) {
  std::optional<Undo> now;
  twice("the state of the model's buffers", [&] { now.emplace(model_, device_); });
  try {
    replay.before->restore_buffers();
    const bool all_fit = again(replay, result, attempt);
    now->restore();
    return all_fit;
  } catch (...) {
    now->restore();
    throw;
  }
}

/// The statistics of the whole batch, of one normalisation after the other. The first pass goes to the end,
/// so that its random draws are those of the whole model.
bool MicroBatches::measure(Replay& replay, BatchResult& result) {
  replay.statistics = std::make_shared<BatchStatistics>();
  BatchStatistics& statistics = *replay.statistics;
  const auto measured_by = [&](BatchStatistics::Pass pass) {
    return [&, pass](std::int64_t first, std::int64_t count) {
      const Samples samples = fetch(replay.batch, first, count);
      static_cast<void>(statistics.run(model_, samples.inputs, pass));
      statistics.add_measured();
    };
  };
  const RandomState before(device_);
  each(replay.batch.size(), result, [&](std::int64_t first, std::int64_t count) {
    RandomState random(device_);
    measured_by(BatchStatistics::Pass::first)(first, count);
    replay.steps.push_back({first, count, std::move(random)});
  });
  replay.drew_random = !(RandomState(device_) == before);
  if (statistics.calls() == 0)
    throw InfinityBatchError(
        "the model normalises by statistics of its samples, but not by at::batch_norm: BatchNorm::exact "
        "cannot "
        "do that");
  twice("the statistics of the batch", [&] { statistics.end_measuring(); });
  while (statistics.known() < statistics.calls()) {
    replay.before->restore_buffers();
    if (!again(replay, result, measured_by(BatchStatistics::Pass::measure))) return false;
    twice("the statistics of the batch", [&] { statistics.end_measuring(); });
  }
  replay.before->restore_buffers();
  return true;
}

/// The outputs of all micro-batches, without a graph.
bool MicroBatches::make_outputs(Replay& replay, BatchResult& result) {
  std::vector<Tensors> outputs;
  std::vector<Tensors> targets;
  const bool are_known = !replay.steps.empty();
  const auto attempt = [&](std::int64_t first, std::int64_t count) {
    RandomState random(device_);
    const Samples samples = fetch(replay.batch, first, count);
    Tensors made = forward_of(replay, samples.inputs);
    if (!are_known) replay.steps.push_back({first, count, std::move(random)});
    outputs.push_back(std::move(made));
    targets.push_back(samples.targets);
  };
  if (!are_known) {
    const RandomState before(device_);
    each(replay.batch.size(), result, attempt);
    replay.drew_random = !(RandomState(device_) == before);
  } else if (!again(replay, result, attempt)) {
    return false;
  }
  replay.micro_batches = static_cast<std::int64_t>(outputs.size());
  twice("the outputs of the batch", [&] {
    replay.outputs = joined(outputs);
    replay.targets = joined(targets);
  });
  return true;
}

MicroBatches::Replay MicroBatches::first_pass(const Batch& batch, BatchResult& result) {
  const at::NoGradGuard no_grad;
  const bool by_statistics = takes_statistics(batch);
  std::shared_ptr<const Undo> start;
  twice("the state of the model's buffers", [&] { start = std::make_shared<Undo>(model_, device_); });
  try {
    for (;;) {
      Replay replay{.batch = batch, .before = start};
      if ((!by_statistics || measure(replay, result)) && make_outputs(replay, result)) {
        if (replay.statistics)
          twice("the running statistics",
                [&] { replay.statistics->move_running(model_, *start, replay.micro_batches); });
        return replay;
      }
      start->restore();
    }
  } catch (...) {
    start->restore();
    throw;
  }
}

void MicroBatches::two_passes(const Batch& batch, const Criterion& criterion, GradientSum& sum,
                              BatchResult& result, bool keep) {
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
      set_loss(result, loss, parts);
    });
    if (find_adjoints(replay, gradients, result) && second_pass(replay, gradients, sum, result, nullptr)) {
      if (keep) {
        result.outputs = replay.outputs;
        result.targets = replay.targets;
      }
      return;
    }
    // Random draws belong to the micro-batches that have become too large: all is done again with smaller
    // ones.
    sum.take();
    replay.before->restore();
  }
}

/// The gradients by these and, where they are wanted, by the inputs that require one, of this micro-batch.
Tensors MicroBatches::replayed(const Replay& replay, const Tensors& gradients, Tensors by, bool by_inputs,
                               std::int64_t first, std::int64_t count) {
  Samples samples = fetch(replay.batch, first, count);
  const std::size_t inputs_begin = by.size();
  for (at::Tensor& input : samples.inputs) {
    if (!by_inputs || !input.requires_grad()) continue;
    input = input.detach().requires_grad_();
    by.push_back(input);
  }
  const Tensors outputs = forward_of(replay, samples.inputs);
  Tensors roots;
  Tensors seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
    roots.push_back(outputs[i]);
    seeds.push_back(gradients[i].narrow(0, first, count).to(outputs[i].device()));
  }
  Tensors found(by.size());
  if (!roots.empty())
    found = torch::autograd::grad(roots, by, seeds, std::nullopt, false, /*allow_unused=*/true);
  for (std::size_t i = inputs_begin; i < by.size(); ++i)  // an input that nothing depends on
    if (!found[i].defined()) found[i] = at::zeros_like(by[i]);
  return found;
}

/// The derivatives of the loss by the statistics, from the last normalisation to the first.
bool MicroBatches::find_adjoints(const Replay& replay, const Tensors& gradients, BatchResult& result) {
  if (!replay.statistics) return true;
  const at::AutoGradMode with_gradients(true);
  replay.statistics->forget_adjoints();
  for (std::size_t call = replay.statistics->calls(); call-- > 0;) {
    const Tensors by = replay.statistics->begin_adjoint(call);
    GradientSum sum(by);
    const bool all_fit = again_from_the_start(replay, result, [&](std::int64_t first, std::int64_t count) {
      sum.add(replayed(replay, gradients, by, false, first, count));
    });
    if (!all_fit) return false;
    replay.statistics->set_adjoint(call, sum.take());
  }
  return true;
}

/// False where the steps must be the same again and one has become too large.
bool MicroBatches::second_pass(const Replay& replay, const Tensors& gradients, GradientSum& sum,
                               BatchResult& result, std::vector<Tensors>* of_inputs) {
  const at::AutoGradMode with_gradients(true);
  result.micro_batches = 0;
  return again_from_the_start(replay, result, [&](std::int64_t first, std::int64_t count) {
    Tensors all = replayed(replay, gradients, sum.parameters(), of_inputs != nullptr, first, count);
    const auto inputs = all.begin() + static_cast<std::ptrdiff_t>(sum.parameters().size());
    Tensors by_inputs(std::make_move_iterator(inputs), std::make_move_iterator(all.end()));
    all.erase(inputs, all.end());
    sum.add(std::move(all));
    if (of_inputs) of_inputs->push_back(std::move(by_inputs));
  });
}

void MicroBatches::evaluate_coupled(const Batch& batch, const Criterion& criterion, BatchResult& result,
                                    bool keep) {
  const Replay replay = first_pass(batch, result);
  twice("the loss of all outputs of the batch", [&] {
    Tensors parts;
    const at::Tensor loss = criterion(replay.outputs, replay.targets, &parts);
    set_loss(result, loss, parts);
  });
  if (!keep) return;
  result.outputs = replay.outputs;
  result.targets = replay.targets;
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
    if (!owner_->find_adjoints(replay_, gradients, result) ||
        !owner_->second_pass(replay_, gradients, sum, result, &of_inputs))
      throw OutOfMemory(
          "memory ran out in the backward pass of a model that draws random numbers, where the "
          "micro-batches cannot be split; they are smaller from now on: make the batch again");
    if (owner_->on_gradients) owner_->on_gradients();
    Tensors all = sum.take();
    const std::size_t inputs = of_inputs.front().size();
    owner_->twice("the gradients of the inputs", [&] {
      const Tensors whole = inputs > 0 ? owner_->joined(of_inputs) : Tensors{};
      all.resize(parameters_.size());
      all.insert(all.end(), whole.begin(), whole.end());
    });
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
