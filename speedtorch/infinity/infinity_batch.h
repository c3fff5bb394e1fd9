/// Training and evaluation with batches that exceed the device's memory, with the full batch's gradients.
/// docs/infinitybatch.md shows its use and its costs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "speedtorch/infinity/checkpoint.h"
#include "speedtorch/infinity/container.h"
#include "speedtorch/infinity/criterion.h"
#include "speedtorch/infinity/data.h"
#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity/event_monitor.h"
#include "speedtorch/infinity/listener.h"
#include "speedtorch/infinity/micro_batches.h"
#include "speedtorch/infinity/model.h"
#include "speedtorch/infinity/optimizer.h"
#include "speedtorch/infinity/state_host.h"
#include "speedtorch/infinity/step_guard.h"
#include "speedtorch/infinity/warnings.h"
#include "speedtorch/memory/table_options.h"

namespace speedtorch {

/// The loss of a past batch.
struct KeptLoss {
  double value = 0;
  std::int64_t samples = 0;
};

/// The data of past batches to keep, on the host and without graphs. By default the last 10,000 losses.
struct KeepOptions {
  infinity::Keep inputs = infinity::Keep::nothing();
  infinity::Keep outputs = infinity::Keep::nothing();
  infinity::Keep targets = infinity::Keep::nothing();
  infinity::Keep losses = infinity::Keep::last_batches(10'000);
  /// Each receives the items that are dropped, with Keep::nothing() all items, for example to write them to a
  /// disk.
  infinity::Container<infinity::Tensors>::Dropped dropped_inputs = {};
  infinity::Container<infinity::Tensors>::Dropped dropped_outputs = {};
  infinity::Container<infinity::Tensors>::Dropped dropped_targets = {};
  infinity::Container<KeptLoss>::Dropped dropped_losses = {};
};

struct InfinityBatchOptions {
  /// The size of micro-batches; by default the fastest that fits, found by trial.
  infinity::MicroBatchOptions micro_batch;
  /// Limit on the device memory of training, in bytes. 0: no limit.
  std::int64_t memory_budget = 0;
  /// Device of outputs, targets and losses (SpeedTorch's backward device). Empty: the model's device.
  std::optional<at::Device> backward_device;
  /// Check on the first micro-batches that their losses add up to the loss of the whole.
  bool check_criterion = true;
  /// How to treat batch normalisation in training mode.
  infinity::BatchNorm batch_norm = infinity::BatchNorm::refuse;
  /// Saved tensors of at least this many bytes wait for the backward pass on the host. 0: none do.
  std::int64_t offload_at_least = 0;
  /// Placement of the optimizers' states (speedtorch/infinity/state_host.h). Empty: the device's memory.
  std::optional<TableOptions> states_home;
  /// Fetch the next micro-batch (from a mapped file, or over the link to a GPU) while the current one runs.
  bool prefetch = false;
  infinity::WarningPlan warnings = infinity::WarningPlan::normal();
  infinity::Warnings::Sink warning_sink;  ///< empty: one line each on standard error
  KeepOptions keep;
};

/// The result of eval(). Means are weighted by samples.
struct Evaluation {
  double loss = 0;
  std::vector<double> of_parts;           ///< one loss per part of the criterion; empty if it has one part
  std::map<std::string, double> metrics;  ///< by name
  std::int64_t samples = 0;
  std::int64_t batches = 0;
};

/// Three ways to use it: `ib(200)` or `train(200)`; `epoch()` in a loop; or a custom loop of `batch()`, a
/// loss with `backward()`, `step()` and `zero_grad()`. Not thread-safe.
class InfinityBatch {
 public:
  /// A metric of one batch, such as the accuracy; eval() weights it by samples.
  using Metric = std::function<double(const infinity::Tensors& outputs, const infinity::Tensors& targets)>;

  explicit InfinityBatch(InfinityBatchOptions options = {});
  InfinityBatch(infinity::Model model, infinity::Optimizer optimizer, infinity::Criterion criterion,
                infinity::Data data, InfinityBatchOptions options = {});
  /// Several optimizers are stepped together: all of them or none.
  InfinityBatch(infinity::Model model, std::vector<infinity::Optimizer> optimizers,
                infinity::Criterion criterion, infinity::Data data, InfinityBatchOptions options = {});
  ~InfinityBatch();
  InfinityBatch(const InfinityBatch&) = delete;
  InfinityBatch& operator=(const InfinityBatch&) = delete;

  /// May be set once. Setting it again is ignored with a warning.
  void set_model(infinity::Model model);
  void set_optimizer(infinity::Optimizer optimizer);
  void set_optimizers(std::vector<infinity::Optimizer> optimizers);
  void set_criterion(infinity::Criterion criterion);
  /// May be set repeatedly; abandons an interrupted epoch.
  void set_data(infinity::Data data);
  void listen(std::shared_ptr<infinity::Listener> listener);

  /// Clears the containers and trains for `epochs` epochs, of which the first may be an interrupted one.
  /// @returns the record of the last epoch. @throws InfinityBatchError for a negative number
  infinity::EpochRecord train(std::int64_t epochs);
  infinity::EpochRecord operator()(std::int64_t epochs) { return train(epochs); }
  /// Trains for one pass over the data: gradients, step and zero_grad per batch. If anything throws (the
  /// data, a listener, lack of memory), the current batch leaves no trace: its gradients are dropped, and the
  /// next epoch() resumes with it. A batch that was stepped counts as done. @throws InfinityBatchError if
  /// something was not set, or if the data has no batch
  infinity::EpochRecord epoch();

  /// Outputs of a batch of any size, for a custom loss. The `backward()` of that loss computes the model's
  /// gradients micro-batch by micro-batch. It runs the model again, in the modes of this call, and throws
  /// InfinityBatchError if an input or a parameter was changed since. Under at::NoGradGuard the outputs have
  /// no backward pass.
  at::Tensor batch(const at::Tensor& inputs);
  infinity::Tensors batch(const infinity::Tensors& inputs);
  /// Loss and gradients of a batch, by the criterion. If the criterion is a mean or a sum, takes one pass,
  /// which is half the forward work of batch().
  infinity::BatchResult backward(const infinity::Batch& batch);
  /// @throws OutOfMemory; parameters, states and gradients are then as before
  void step();
  void zero_grad();

  /// Loss and metrics without gradients, in evaluation mode. Restores the mode.
  Evaluation eval(const infinity::Data& data, const std::map<std::string, Metric>& metrics = {});

  /// The device of the first trainable parameter.
  [[nodiscard]] at::Device forward_device() const;
  [[nodiscard]] at::Device backward_device() const;
  /// Moves the model and the states of the optimizers.
  void change_model_device(at::Device device);
  /// Warns if the criterion's tensors are not on the device of outputs and targets. @throws
  /// InfinityBatchError naming the first parameter or buffer on another device
  void check_devices() const;

  [[nodiscard]] const infinity::Container<infinity::Tensors>& inputs() const { return inputs_; }
  [[nodiscard]] const infinity::Container<infinity::Tensors>& outputs() const { return outputs_; }
  [[nodiscard]] const infinity::Container<infinity::Tensors>& targets() const { return targets_; }
  [[nodiscard]] const infinity::Container<KeptLoss>& losses() const { return losses_; }
  void clear_containers();

  /// Saves all that is needed to resume training: parameters, buffers, states, generators, position in the
  /// data, and micro-batch sizes. Atomic. Not allowed between gradients and step of a batch of epoch(), whose
  /// random draws are incomplete: call it in stepped(), not in batch_ends(). @throws FileError,
  /// InfinityBatchError
  void save(const std::string& path);
  /// Resumes from a saved state, even in the middle of an epoch. On the same machine and data, training
  /// continues bit for bit as it would have, if the sizes of micro-batches were chosen (or do not go by
  /// speed). Batches of the epoch that were done are read from the data and skipped. @throws FileError;
  /// InfinityBatchError for another model or other optimizers
  void resume(const std::string& path);

  [[nodiscard]] const infinity::Place& place() const { return place_; }
  [[nodiscard]] infinity::Warnings& warnings() { return *warnings_; }
  /// The sizes found, per shape of sample.
  [[nodiscard]] infinity::MicroBatchSize& micro_batch_size();
  [[nodiscard]] const infinity::OffloadFigures& offloaded() { return micro_batches().offloaded(); }
  /// The number of micro-batches that were prefetched.
  [[nodiscard]] std::int64_t prefetched() { return micro_batches().prefetched(); }
  [[nodiscard]] std::int64_t steps_taken_back() const { return guard_.taken_back(); }
  /// Bytes on the host of the copy that a step is rolled back to. 0 if the optimizers allocate nothing.
  [[nodiscard]] std::int64_t step_copy_bytes() const { return guard_.bytes(); }
  /// Bytes of the states in options.states_home.
  [[nodiscard]] std::int64_t hosted_state_bytes() const { return state_host_ ? state_host_->bytes() : 0; }

 private:
  /// Sums of the running epoch; divided at its end.
  struct Totals {
    double loss = 0;  ///< multiplied by samples, as are the parts
    std::vector<double> of_parts;
    infinity::EpochRecord record;
  };
  infinity::Data::Next start_epoch();
  infinity::Data::Next new_epoch();
  infinity::Data::Next resumed_epoch();
  infinity::MicroBatches& micro_batches();
  void require_all() const;
  /// The data of a batch that the containers keep.
  struct Kept {
    infinity::Tensors inputs;
    infinity::Tensors outputs;
    infinity::Tensors targets;
  };
  void train_batch(const infinity::Batch& batch);
  infinity::BatchResult gradients_and_step(const infinity::Batch& batch, Kept& kept);
  void drop_gradients();
  [[nodiscard]] Kept to_keep(const infinity::Batch& batch, const infinity::BatchResult& result) const;
  void add_to_containers(Kept kept, const infinity::BatchResult& result);
  void place_states();
  infinity::BatchResult gradients(const infinity::Batch& batch);
  [[nodiscard]] bool has_gradients() const;
  template <class Call>
  void notify(Call call);

  InfinityBatchOptions options_;
  std::shared_ptr<infinity::Warnings> warnings_;
  infinity::EventMonitor monitor_;
  std::optional<infinity::Model> model_;
  std::vector<infinity::Optimizer> optimizers_;
  std::optional<infinity::Criterion> criterion_;
  std::optional<infinity::Data> data_;
  std::optional<infinity::MicroBatches> micro_batches_;
  infinity::StepGuard guard_;
  std::optional<infinity::StateHost> state_host_;
  std::vector<std::shared_ptr<infinity::Listener>> listeners_;
  infinity::Place place_;
  Totals totals_;
  infinity::Data::Next next_;                       ///< of the running epoch; empty between epochs
  std::optional<infinity::Batch> pending_;          ///< read from the data but not stepped yet
  bool in_batch_ = false;                           ///< between the beginning of a batch and its step
  std::optional<infinity::TrainingState> resumed_;  ///< until its epoch continues
  infinity::Tensors random_of_epoch_;
  infinity::Container<infinity::Tensors> inputs_;
  infinity::Container<infinity::Tensors> outputs_;
  infinity::Container<infinity::Tensors> targets_;
  infinity::Container<KeptLoss> losses_;
};

}  // namespace speedtorch
