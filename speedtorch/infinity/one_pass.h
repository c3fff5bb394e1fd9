/// The loss of a batch, and its gradients, by one pass over its micro-batches. Internal.
#pragma once

#include "speedtorch/infinity/batch_run.h"
#include "speedtorch/infinity/criterion.h"
#include "speedtorch/infinity/gradient_sum.h"

namespace speedtorch::infinity {

/// Runs each micro-batch forward and backward by itself; its loss is weighted by its samples. For criteria
/// that are a mean or a sum over samples. Writes the loss to run.result.
/// @param sum receives the gradients; null: none are made
/// @param keep also writes outputs and targets of the whole batch to run.result
void one_pass(BatchRun& run, const Criterion& criterion, GradientSum* sum, bool keep);

}  // namespace speedtorch::infinity
