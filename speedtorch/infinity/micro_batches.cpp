#include "speedtorch/infinity/micro_batches.h"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <optional>
#include <utility>

#include "speedtorch/infinity/batch_run.h"
#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity/gradient_sum.h"
#include "speedtorch/infinity/one_pass.h"
#include "speedtorch/infinity/two_passes.h"
#include "speedtorch/infinity/undo.h"

namespace speedtorch::infinity {

MicroBatches::MicroBatches(Model model, MicroBatchesOptions options, std::shared_ptr<Warnings> warnings) {
  for (const auto& [name, value] :
       {std::pair{"memory_budget", options.memory_budget}, {"offload_at_least", options.offload_at_least}})
    if (value < 0)
      throw InfinityBatchError("options." + std::string(name) + " is " + std::to_string(value) +
                               " bytes; take 0 for none, or a positive number");
  context_ = std::make_shared<MicroBatchContext>(
      MicroBatchContext{.model = std::move(model),
                        .options = options,
                        .warnings = std::move(warnings),
                        .sizes = MicroBatchSize(options.micro_batch),
                        .prefetch = options.prefetch ? std::make_unique<Prefetch>() : nullptr,
                        .criterion_checked = !options.check_criterion});
}

BatchResult MicroBatches::backward(const Batch& batch, const Criterion& criterion, bool keep) {
  BatchRun run(*context_, batch, true);
  GradientSum sum(run.model().trainable());
  if (sum.parameters().empty())
    throw InfinityBatchError("the model has no parameter that requires a gradient");
  const at::AutoGradMode with_gradients(true);
  std::optional<Undo> start;
  run.retry_after_oom("the state of the model's buffers", [&] { start.emplace(run.model(), run.device()); });
  try {
    run.starts_from(*start);
    const bool coupled = criterion.reduction() == Reduction::coupled;
    const bool by_batch_statistics = normalises_by_batch_statistics(run);
    if (coupled || by_batch_statistics)
      two_passes(run, by_batch_statistics, criterion, sum, keep);
    else
      one_pass(run, criterion, &sum, keep);
    if (context_->hooks.on_gradients) context_->hooks.on_gradients();
    run.retry_after_oom("the sum of gradients", [&] { sum.publish(); });
  } catch (...) {
    start->restore();
    throw;
  }
  return std::move(run.result);
}

BatchResult MicroBatches::evaluate(const Batch& batch, const Criterion& criterion, bool keep) {
  BatchRun run(*context_, batch, false);
  const at::NoGradGuard no_grad;
  const bool by_batch_statistics = normalises_by_batch_statistics(run);
  if (criterion.reduction() == Reduction::coupled || by_batch_statistics)
    evaluate_all_outputs(run, by_batch_statistics, criterion, keep);
  else
    one_pass(run, criterion, nullptr, keep);
  return std::move(run.result);
}

Tensors MicroBatches::outputs(const Tensors& inputs) { return differentiable_outputs(context_, inputs); }

}  // namespace speedtorch::infinity
