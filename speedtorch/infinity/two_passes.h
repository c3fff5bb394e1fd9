/// Batches whose first gradient depends on all outputs: losses that couple samples, losses of the user's own,
/// and batch normalisation by the statistics of the whole batch. Internal.
///
/// The first pass makes all outputs without a graph. Then the loss is differentiated with respect to the
/// outputs. The second pass runs each micro-batch again, with the same random draws, and backward from its
/// part of that gradient.
#pragma once

#include <memory>

#include "speedtorch/infinity/batch_run.h"
#include "speedtorch/infinity/criterion.h"
#include "speedtorch/infinity/gradient_sum.h"

namespace speedtorch::infinity {

/// True for BatchNorm::exact if the model has a batch normalisation that takes statistics of its samples.
/// Runs the model on least() samples and puts buffers and generators back.
bool normalises_by_batch_statistics(BatchRun& run);

/// Adds the gradients to `sum` and writes the loss to run.result. @param keep also outputs and targets
void two_passes(BatchRun& run, bool by_batch_statistics, const Criterion& criterion, GradientSum& sum,
                bool keep);

/// Writes the loss to run.result, without gradients. @param keep also outputs and targets
void evaluate_all_outputs(BatchRun& run, bool by_batch_statistics, const Criterion& criterion, bool keep);

/// Outputs of the whole batch. If gradients are enabled, their backward pass runs the second pass.
Tensors differentiable_outputs(const std::shared_ptr<MicroBatchContext>& context, const Tensors& inputs);

}  // namespace speedtorch::infinity
