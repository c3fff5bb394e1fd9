/// Loss and gradients of a batch, one micro-batch at a time.
#pragma once

#include <memory>

#include "speedtorch/infinity/criterion.h"
#include "speedtorch/infinity/micro_batch_context.h"

namespace speedtorch::infinity {

/// A batch whose loss is a mean or a sum over samples takes one pass (one_pass.h), others take two
/// (two_passes.h). batch_run.h sizes and retries the micro-batches.
class MicroBatches {
 public:
  /// @throws InfinityBatchError for a negative number of bytes among the options
  MicroBatches(Model model, MicroBatchesOptions options, std::shared_ptr<Warnings> warnings);

  void set_hooks(MicroBatchHooks hooks) { context_->hooks = std::move(hooks); }

  /// Adds the gradients of the batch to the parameters' gradients and returns its loss. If it throws,
  /// gradients, the model's buffers and the random generators are as before.
  /// @param keep the result contains outputs and targets of the whole batch
  /// @throws OutOfMemory if one sample exceeds memory or the budget, or if the size is fixed
  BatchResult backward(const Batch& batch, const Criterion& criterion, bool keep = false);

  /// The loss without gradients.
  BatchResult evaluate(const Batch& batch, const Criterion& criterion, bool keep = false);

  /// Outputs for a loss of the caller's own. Its backward pass runs the model again, micro-batch by
  /// micro-batch. Under NoGradGuard the outputs have no backward pass.
  Tensors outputs(const Tensors& inputs);

  [[nodiscard]] MicroBatchSize& sizes() { return context_->sizes; }
  [[nodiscard]] const OffloadFigures& offloaded() const { return *context_->offloaded; }
  /// The number of micro-batches that were prefetched.
  [[nodiscard]] std::int64_t prefetched() const {
    return context_->prefetch ? context_->prefetch->hits() : 0;
  }

 private:
  /// Shared with the outputs whose backward pass has not run.
  std::shared_ptr<MicroBatchContext> context_;
};

}  // namespace speedtorch::infinity
