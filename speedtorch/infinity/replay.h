/// The micro-batches of a batch, run several times with the same random draws and buffers. Internal.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "speedtorch/infinity/batch_run.h"
#include "speedtorch/infinity/batch_statistics.h"
#include "speedtorch/infinity/gradient_sum.h"
#include "speedtorch/infinity/random_state.h"
#include "speedtorch/infinity/undo.h"

namespace speedtorch::infinity {

/// Outlives its BatchRun: the gradients of outputs() may be requested much later, in another BatchRun of the
/// same batch.
class Replay {
 public:
  /// Runs the first pass: makes the outputs of all micro-batches, without a graph. With
  /// `by_batch_statistics`, first measures the statistics of the whole batch.
  /// @throws OutOfMemory; the model's buffers and the generators are then as before
  static Replay first_pass(BatchRun& run, bool by_batch_statistics);

  /// Runs the backward passes: adds the parameters' gradients to `sum`.
  /// @param gradients of the loss with respect to each of outputs(); undefined: none
  /// @param of_inputs receives, per micro-batch, the gradients of the inputs that require one; null: none
  /// @returns false if the micro-batches must be the same as before, but one of them no longer fits
  bool backward(BatchRun& run, const Tensors& gradients, GradientSum& sum, std::vector<Tensors>* of_inputs);

  /// Puts buffers and generators back to the beginning of the first pass.
  void undo() const { before_->restore(); }

  [[nodiscard]] const Tensors& outputs() const { return outputs_; }  ///< of the whole batch
  [[nodiscard]] const Tensors& targets() const { return targets_; }
  /// For an autograd node behind the outputs: they would hold the node that holds them.
  void drop_outputs() { outputs_.clear(); }

 private:
  struct Step {
    std::int64_t first;
    std::int64_t count;
    RandomState random;  ///< before the step
  };

  explicit Replay(std::shared_ptr<const Undo> before) : before_(std::move(before)) {}
  bool measure(BatchRun& run);
  bool make_outputs(BatchRun& run);
  bool repeat(BatchRun& run, const BatchRun::Attempt& attempt) const;
  bool repeat_from_the_start(BatchRun& run, const BatchRun::Attempt& attempt) const;
  bool find_adjoints(BatchRun& run, const Tensors& gradients);
  [[nodiscard]] Tensors forward(BatchRun& run, const Tensors& inputs) const;
  [[nodiscard]] Tensors differentiated(BatchRun& run, const Tensors& gradients, Tensors by, bool by_inputs,
                                       std::int64_t first, std::int64_t count) const;

  std::shared_ptr<const Undo> before_;  ///< the buffers at the beginning of the first pass
  bool drew_random_ = false;  ///< if so, repeated passes need the same steps; else micro-batches may differ
  std::vector<Step> steps_;
  std::shared_ptr<BatchStatistics> statistics_;  ///< null unless normalised by the batch's statistics
  std::int64_t micro_batches_ = 0;               ///< that made the outputs
  Tensors outputs_;
  Tensors targets_;
};

}  // namespace speedtorch::infinity
