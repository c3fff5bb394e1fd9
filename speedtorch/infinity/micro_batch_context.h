/// Shared by all batches of one training: model, options, and what earlier batches taught. Internal, except
/// for the options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "speedtorch/infinity/batch_result.h"
#include "speedtorch/infinity/micro_batch_size.h"
#include "speedtorch/infinity/model.h"
#include "speedtorch/infinity/offload.h"
#include "speedtorch/infinity/prefetch.h"
#include "speedtorch/infinity/warnings.h"

namespace speedtorch::infinity {

/// How to train a model whose batch normalisation takes its statistics from the samples (training mode). The
/// statistics of a micro-batch differ from those of the batch. With `per_micro_batch` and `exact`, a
/// micro-batch has at least two samples.
enum class BatchNorm {
  refuse,           ///< throws InfinityBatchError, which lists the alternatives
  per_micro_batch,  ///< each micro-batch uses its own statistics; warns; running statistics move once per
                    ///< micro-batch
  exact,            ///< statistics, running statistics and gradients of the whole batch, by two more passes
                    ///< per normalisation (speedtorch/infinity/batch_statistics.h)
};

struct MicroBatchesOptions {
  MicroBatchOptions micro_batch;
  /// Limit, in bytes, on the device memory of parameters, gradients, states and one micro-batch. 0: no limit.
  std::int64_t memory_budget = 0;
  /// Device of outputs, targets and losses. Empty: the model's device.
  std::optional<at::Device> output_device;
  /// Check on the first micro-batches that their losses add up to the loss of the whole.
  bool check_criterion = true;
  BatchNorm batch_norm = BatchNorm::refuse;
  /// Saved tensors of at least this many bytes wait for the backward pass in host memory. 0: none do.
  std::int64_t offload_at_least = 0;
  /// Fetch the samples of the next micro-batch while the model runs.
  bool prefetch = false;
};

struct MicroBatchHooks {
  std::function<void(const MicroBatchProgress&)> on_micro_batch;
  /// Called when the gradients of a batch are complete.
  std::function<void()> on_gradients;
  /// Returns the bytes held beside the model's own, such as optimizer states. For the memory budget.
  std::function<std::int64_t()> other_bytes;
};

struct MicroBatchContext {
  Model model;
  MicroBatchesOptions options;
  std::shared_ptr<Warnings> warnings;
  MicroBatchSize sizes;
  std::unique_ptr<Prefetch> prefetch;  ///< null unless options.prefetch
  std::shared_ptr<OffloadFigures> offloaded = std::make_shared<OffloadFigures>();
  MicroBatchHooks hooks = {};
  bool in_hook = false;  ///< on_micro_batch is running
  bool criterion_checked = false;
  /// True until a batch has run without batch normalisation: only then is a notice sufficient.
  bool expect_batch_norm = true;
};

}  // namespace speedtorch::infinity
