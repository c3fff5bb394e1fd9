/// A batch's loss and gradients, a micro-batch at a time.
///
/// One pass: each micro-batch goes forward and backward by itself, its loss weighted by its samples. Two
/// passes, for losses that couple samples: all outputs are made without a graph, the loss of all of them is
/// differentiated by them, and then each micro-batch goes forward again, with the same random draws, and
/// backward from its part of that.
///
/// Each micro-batch is an attempt: its gradients are taken apart from all others and added when they are
/// there. One that runs out of memory has changed nothing (random generators and buffers are put back) and is
/// made again, smaller if need be.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "speedtorch/infinity/batch.h"
#include "speedtorch/infinity/criterion.h"
#include "speedtorch/infinity/gradient_sum.h"
#include "speedtorch/infinity/micro_batch_size.h"
#include "speedtorch/infinity/model.h"
#include "speedtorch/infinity/offload.h"
#include "speedtorch/infinity/prefetch.h"
#include "speedtorch/infinity/random_state.h"
#include "speedtorch/infinity/warnings.h"

namespace speedtorch::infinity {

/// What became of a batch.
struct BatchResult {
  double loss = 0;               ///< of the whole batch
  std::vector<double> of_parts;  ///< the criterion's, where it has several
  Tensors outputs;               ///< of the whole batch, detached, where they were asked for
  Tensors targets;               ///< likewise
  std::int64_t samples = 0;
  std::int64_t micro_batches = 0;
  std::int64_t largest_micro_batch = 0;  ///< samples
  std::int64_t refusals = 0;             ///< attempts that ran out of memory
};

/// What becomes of a model whose batch normalisation takes its statistics from the samples (training mode):
/// those of a micro-batch are not those of the batch. `refuse`: an error that says what can be done.
/// `per_micro_batch`: each micro-batch has its own, with a warning; running statistics move once a
/// micro-batch. `exact`: the batch's, by two passes more for each normalisation
/// (speedtorch/infinity/batch_statistics.h); statistics, running statistics and gradients are the plain
/// batch's. With the last two, a micro-batch has at least two samples.
enum class BatchNorm { refuse, per_micro_batch, exact };

struct MicroBatchesOptions {
  MicroBatchOptions micro_batch;
  /// Bytes of the model's device that training may use: parameters, gradients, states and one micro-batch; 0:
  /// what there is.
  std::int64_t memory_budget = 0;
  /// Where outputs and losses go; empty: where the model is.
  std::optional<at::Device> output_device;
  /// The first micro-batches show whether the losses of parts make up the loss of the whole.
  bool check_criterion = true;
  BatchNorm batch_norm = BatchNorm::refuse;
  /// Saved tensors of so many bytes and more wait for the backward pass in the host's memory; 0: none do.
  std::int64_t offload_at_least = 0;
  /// Fetch the next micro-batch's samples meanwhile.
  bool prefetch = false;
};

class MicroBatches : public std::enable_shared_from_this<MicroBatches> {
 public:
  MicroBatches(Model model, MicroBatchesOptions options, std::shared_ptr<Warnings> warnings);

  /// Called after each micro-batch that worked, and after each that ran out of memory.
  struct Progress {
    std::int64_t first = 0;  ///< sample
    std::int64_t count = 0;  ///< samples
    bool worked = true;
  };
  std::function<void(const Progress&)> on_micro_batch;
  /// Called when the gradients of a batch have been made, by backward() or by that of a loss of outputs().
  std::function<void()> on_gradients;
  /// Bytes that are held besides the model's own: states of optimizers. For the memory budget.
  std::function<std::int64_t()> other_bytes;

  /// The loss of the batch, and its gradients added to the parameters'. When it throws, they, the model's
  /// buffers and the random generators are as before. @throws OutOfMemory where one sample does not fit, into
  /// memory or the budget, or where the size is fixed
  /// @param keep outputs and targets of the whole batch are in the result
  BatchResult backward(const Batch& batch, const Criterion& criterion, bool keep = false);

  /// The loss without gradients.
  BatchResult evaluate(const Batch& batch, const Criterion& criterion, bool keep = false);

  /// Outputs that one may compute a loss of and differentiate: the model runs again, micro-batch by
  /// micro-batch, when the gradient comes. Without gradients (NoGradGuard) they are just outputs.
  Tensors outputs(const Tensors& inputs);

  [[nodiscard]] MicroBatchSize& sizes() { return sizes_; }
  [[nodiscard]] const OffloadFigures& offloaded() const { return *offloaded_; }
  [[nodiscard]] std::int64_t prefetched() const {
    return prefetch_ ? prefetch_->hits() : 0;
  }  ///< micro-batches

 private:
  struct Replay;
  class Recompute;
  class Check;
  using Attempt = std::function<void(std::int64_t first, std::int64_t count)>;
  enum class Outcome { worked, ran_out, again };

  void begin(const Batch& batch, bool with_gradients);
  [[nodiscard]] Tensors forward(const Tensors& inputs);
  [[nodiscard]] Tensors forward_of(const Replay& replay, const Tensors& inputs);
  [[nodiscard]] Samples fetch(const Batch& batch, std::int64_t first, std::int64_t count);
  [[nodiscard]] std::int64_t least() const;
  [[nodiscard]] std::int64_t most_of(std::int64_t left) const;
  [[nodiscard]] std::int64_t next_of(std::int64_t left) const;
  void each(std::int64_t samples, BatchResult& result, const Attempt& attempt);
  bool attempted(std::int64_t first, std::int64_t count, BatchResult& result, const Attempt& attempt);
  Outcome guarded(const std::function<void()>& work, std::int64_t& bytes_taken);
  void worked(std::int64_t count, std::int64_t bytes_taken);
  void ran_out(std::int64_t first, std::int64_t count);
  void tell(const Progress& progress);
  void twice(const std::string& what, const std::function<void()>& work);
  void one_pass(const Batch& batch, const Criterion& criterion, GradientSum* sum, BatchResult& result,
                bool keep);
  void check_criterion(Check& check, const Criterion& criterion, const Tensors& outputs,
                       const Tensors& targets, const at::Tensor& loss, double weight);
  void two_passes(const Batch& batch, const Criterion& criterion, GradientSum& sum, BatchResult& result,
                  bool keep);
  bool takes_statistics(const Batch& batch);
  Replay first_pass(const Batch& batch, BatchResult& result);
  bool measure(Replay& replay, BatchResult& result);
  bool make_outputs(Replay& replay, BatchResult& result);
  bool again(const Replay& replay, BatchResult& result, const Attempt& attempt);
  bool again_from_the_start(const Replay& replay, BatchResult& result, const Attempt& attempt);
  bool find_adjoints(const Replay& replay, const Tensors& gradients, BatchResult& result);
  bool second_pass(const Replay& replay, const Tensors& gradients, GradientSum& sum, BatchResult& result,
                   std::vector<Tensors>* of_inputs);
  Tensors replayed(const Replay& replay, const Tensors& gradients, Tensors by, bool by_inputs,
                   std::int64_t first, std::int64_t count);
  void evaluate_coupled(const Batch& batch, const Criterion& criterion, BatchResult& result, bool keep);
  [[nodiscard]] Tensors joined(const std::vector<Tensors>& parts) const;
  [[nodiscard]] at::Device output_device() const { return options_.output_device.value_or(device_); }

  Model model_;
  MicroBatchesOptions options_;
  std::shared_ptr<Warnings> warnings_;
  MicroBatchSize sizes_;
  bool criterion_checked_ = false;
  at::Device device_ = at::kCPU;  ///< of the batch at work
  std::string key_;               ///< of its samples' shape
  bool with_gradients_ = false;
  std::int64_t samples_ = 0;  ///< of the batch at work
  bool telling_ = false;      ///< a listener has been called and has not returned
  std::int64_t refusals_ = 0;
  bool looked_at_batch_norm_ = false;     ///< in this batch
  bool looks_at_arguments_ = true;        ///< as the last batch had a batch normalisation, or none is known
  std::optional<bool> takes_statistics_;  ///< of this batch, once it is known
  std::unique_ptr<Prefetch> prefetch_;
  /// Of the micro-batch at work and the next one, where they are prefetched.
  std::int64_t fetched_bytes_ = 0;
  std::shared_ptr<OffloadFigures> offloaded_ = std::make_shared<OffloadFigures>();
};

}  // namespace speedtorch::infinity
