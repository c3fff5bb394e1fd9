/// One batch at work: fetches its samples, runs the model, and sizes and retries its micro-batches. Internal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "speedtorch/infinity/layer_watch.h"
#include "speedtorch/infinity/micro_batch_context.h"
#include "speedtorch/infinity/undo.h"

namespace speedtorch::infinity {

/// Each micro-batch is an attempt. An attempt that runs out of memory is rolled back (random generators and
/// buffers) and repeated, with fewer samples if necessary.
class BatchRun {
 public:
  /// The work of one attempt. It adds to sums and lists only after its last step that may run out of memory.
  using Attempt = std::function<void(std::int64_t first, std::int64_t count)>;

  /// @throws InfinityBatchError for a batch without samples, or if called from on_micro_batch; OutOfMemory if
  /// one sample cannot be fetched
  BatchRun(MicroBatchContext& context, const Batch& batch, bool with_gradients);

  [[nodiscard]] const Batch& batch() const { return batch_; }
  [[nodiscard]] const Model& model() const { return context_.model; }
  [[nodiscard]] const MicroBatchesOptions& options() const { return context_.options; }
  [[nodiscard]] at::Device device() const { return device_; }  ///< the model's
  [[nodiscard]] at::Device output_device() const;

  /// Samples [first, first + count): inputs on device(), targets on output_device().
  [[nodiscard]] Samples fetch(std::int64_t first, std::int64_t count);
  /// The model's outputs, on output_device().
  /// @throws InfinityBatchError for a normalisation that options().batch_norm refuses
  [[nodiscard]] Tensors forward(const Tensors& inputs);
  /// @throws InfinityBatchError if an instance normalisation moved running statistics, unless
  /// options().batch_norm is per_micro_batch; then warns
  void judge_instance_norm(const LayerWatch& watch);

  /// Says that nothing has changed since `start` was saved: the first attempt saves no state of its own.
  /// `start` must live until that attempt ends.
  void starts_from(const Undo& start) { start_ = &start; }
  /// Runs `attempt` on consecutive micro-batches until all samples are done.
  /// @throws OutOfMemory if one sample does not fit
  void for_each_micro_batch(const Attempt& attempt);
  /// Runs `attempt` once. False if it ran out of memory; the next attempt may be smaller.
  /// @throws OutOfMemory if no smaller one is possible
  bool try_micro_batch(std::int64_t first, std::int64_t count, const Attempt& attempt);
  /// Runs work that cannot be made smaller; if memory runs out, empties LibTorch's cache and runs it again.
  /// @throws OutOfMemory, whose message begins with `what`, if it fails again
  void retry_after_oom(const std::string& what, const std::function<void()>& work);

  /// The minimum number of samples of a micro-batch. LibTorch refuses batch normalisation of one sample.
  [[nodiscard]] std::int64_t least() const;
  /// The maximum number of samples that memory permits, if `left` samples are left. One more than least() if
  /// otherwise a single sample would be left over.
  [[nodiscard]] std::int64_t most_of(std::int64_t left) const;

  void warn(Warning which, const std::string& text) { context_.warnings->warn(which, text); }
  [[nodiscard]] MicroBatchContext& context() { return context_; }

  BatchResult result;

 private:
  [[nodiscard]] Tensors run_model(const Tensors& inputs) const;
  void judge_batch_norm(const LayerWatch& watch);
  [[nodiscard]] std::int64_t next_of(std::int64_t left) const;
  [[nodiscard]] double now() const;
  bool run_with_rollback(const std::function<void()>& work, std::int64_t& bytes_taken);
  void worked(std::int64_t count, std::int64_t bytes_taken);
  void ran_out(std::int64_t first, std::int64_t count);
  void report(const MicroBatchProgress& progress);

  MicroBatchContext& context_;
  Batch batch_;
  bool with_gradients_;
  at::Device device_;
  std::string key_;  ///< the shape of its samples
  const Undo* start_ = nullptr;
  bool batch_norm_checked_ = false;
  std::int64_t fetched_bytes_ = 0;  ///< of the prefetched samples: this micro-batch's and the next one's
};

}  // namespace speedtorch::infinity
