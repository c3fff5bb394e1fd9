#include "speedtorch/infinity/replay.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <iterator>
#include <optional>
#include <utility>

#include "speedtorch/infinity/errors.h"

namespace speedtorch::infinity {

Replay Replay::first_pass(BatchRun& run, bool by_batch_statistics) {
  const at::NoGradGuard no_grad;
  std::shared_ptr<const Undo> start;
  run.retry_after_oom("the state of the model's buffers",
                      [&] { start = std::make_shared<Undo>(run.model(), run.device()); });
  try {
    for (;;) {
      Replay replay(start);
      if ((!by_batch_statistics || replay.measure(run)) && replay.make_outputs(run)) {
        if (replay.statistics_)
          run.retry_after_oom("the running statistics", [&] {
            replay.statistics_->move_running(run.model(), *start, replay.micro_batches_);
          });
        return replay;
      }
      start->restore();
    }
  } catch (...) {
    start->restore();
    throw;
  }
}

Tensors Replay::forward(BatchRun& run, const Tensors& inputs) const {
  if (!statistics_) return run.forward(inputs);
  return on_device(statistics_->run(run.model(), inputs, BatchStatistics::Pass::use), run.output_device());
}

/// Runs each micro-batch again. If the model drew random numbers, the micro-batches and the draws are the
/// same as before; then returns false if one of them has become too large.
bool Replay::repeat(BatchRun& run, const BatchRun::Attempt& attempt) const {
  if (!drew_random_) {
    run.for_each_micro_batch(attempt);
    return true;
  }
  for (const Step& step : steps_) {
    do {
      if (run.most_of(run.batch().size() - step.first) < step.count) return false;
      step.random.restore();
    } while (!run.try_micro_batch(step.first, step.count, attempt));
  }
  return true;
}

/// The same, with the buffers of the beginning of the first pass. Afterwards buffers and generators are as
/// before the call.
bool Replay::repeat_from_the_start(BatchRun& run, const BatchRun::Attempt& attempt) const {
  std::optional<Undo> now;
  run.retry_after_oom("the state of the model's buffers", [&] { now.emplace(run.model(), run.device()); });
  try {
    before_->restore_buffers();
    const bool all_fit = repeat(run, attempt);
    now->restore();
    return all_fit;
  } catch (...) {
    now->restore();
    throw;
  }
}

/// Measures the statistics of the whole batch, one normalisation after the other. The first pass runs the
/// whole model, so that its random draws are complete.
bool Replay::measure(BatchRun& run) {
  statistics_ = std::make_shared<BatchStatistics>();
  const auto measured_by = [&](BatchStatistics::Pass pass) {
    return [&, pass](std::int64_t first, std::int64_t count) {
      const Samples samples = run.fetch(first, count);
      static_cast<void>(statistics_->run(run.model(), samples.inputs, pass));
      statistics_->add_measured();
    };
  };
  const auto end_pass = [&] {
    run.retry_after_oom("the statistics of the batch", [&] { statistics_->end_measuring(); });
    before_->restore_buffers();
  };
  const RandomState before(run.device());
  run.for_each_micro_batch([&](std::int64_t first, std::int64_t count) {
    RandomState random(run.device());
    measured_by(BatchStatistics::Pass::first)(first, count);
    steps_.push_back({first, count, std::move(random)});
  });
  drew_random_ = !(RandomState(run.device()) == before);
  if (statistics_->calls() == 0)
    throw InfinityBatchError(
        "the model normalises by statistics of its samples without calling at::batch_norm; BatchNorm::exact "
        "supports at::batch_norm only");
  end_pass();
  while (statistics_->known() < statistics_->calls()) {
    if (!repeat(run, measured_by(BatchStatistics::Pass::measure))) return false;
    end_pass();
  }
  return true;
}

bool Replay::make_outputs(BatchRun& run) {
  std::vector<Tensors> outputs;
  std::vector<Tensors> targets;
  const bool are_known = !steps_.empty();
  const auto attempt = [&](std::int64_t first, std::int64_t count) {
    RandomState random(run.device());
    const Samples samples = run.fetch(first, count);
    Tensors made = forward(run, samples.inputs);
    if (!are_known) steps_.push_back({first, count, std::move(random)});
    outputs.push_back(std::move(made));
    targets.push_back(samples.targets);
  };
  if (!are_known) {
    const RandomState before(run.device());
    run.for_each_micro_batch(attempt);
    drew_random_ = !(RandomState(run.device()) == before);
  } else if (!repeat(run, attempt)) {
    return false;
  }
  micro_batches_ = static_cast<std::int64_t>(outputs.size());
  run.retry_after_oom("the outputs of the batch", [&] {
    outputs_ = concatenated(outputs);
    targets_ = concatenated(targets);
  });
  return true;
}

/// The gradients of a micro-batch with respect to `by` and, if `by_inputs`, to the inputs that require one.
Tensors Replay::differentiated(BatchRun& run, const Tensors& gradients, Tensors by, bool by_inputs,
                               std::int64_t first, std::int64_t count) const {
  Samples samples = run.fetch(first, count);
  const std::size_t inputs_begin = by.size();
  for (at::Tensor& input : samples.inputs) {
    if (!by_inputs || !input.requires_grad()) continue;
    input = input.detach().requires_grad_();
    by.push_back(input);
  }
  const Tensors outputs = forward(run, samples.inputs);
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
  for (std::size_t i = inputs_begin; i < by.size(); ++i)  // inputs that no output depends on
    if (!found[i].defined()) found[i] = at::zeros_like(by[i]);
  return found;
}

/// Computes the derivatives of the loss with respect to the statistics, from the last normalisation to the
/// first.
bool Replay::find_adjoints(BatchRun& run, const Tensors& gradients) {
  if (!statistics_) return true;
  statistics_->forget_adjoints();
  for (std::size_t call = statistics_->calls(); call-- > 0;) {
    const Tensors by = statistics_->begin_adjoint(call);
    GradientSum sum(by);
    const bool all_fit = repeat_from_the_start(run, [&](std::int64_t first, std::int64_t count) {
      sum.add(differentiated(run, gradients, by, false, first, count));
    });
    if (!all_fit) return false;
    statistics_->set_adjoint(call, sum.take());
  }
  return true;
}

bool Replay::backward(BatchRun& run, const Tensors& gradients, GradientSum& sum,
                      std::vector<Tensors>* of_inputs) {
  const at::AutoGradMode with_gradients(true);
  if (!find_adjoints(run, gradients)) return false;
  run.result.micro_batches = 0;
  return repeat_from_the_start(run, [&](std::int64_t first, std::int64_t count) {
    Tensors all = differentiated(run, gradients, sum.parameters(), of_inputs != nullptr, first, count);
    const auto inputs = all.begin() + static_cast<std::ptrdiff_t>(sum.parameters().size());
    Tensors by_inputs(std::make_move_iterator(inputs), std::make_move_iterator(all.end()));
    all.erase(inputs, all.end());
    sum.add(std::move(all));
    if (of_inputs) of_inputs->push_back(std::move(by_inputs));
  });
}

}  // namespace speedtorch::infinity
