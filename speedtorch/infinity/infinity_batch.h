/// Training and evaluation with batches that do not fit into the device's memory, with the full batch's
/// gradients. docs/infinitybatch.md shows it in use and says what costs what.
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

/// The loss of a batch, as kept.
struct KeptLoss {
  double value = 0;
  std::int64_t samples = 0;
};

/// What of each batch is kept, on the host and without graphs. By default the last 10,000 losses.
struct KeepOptions {
  infinity::Keep inputs = infinity::Keep::nothing();
  infinity::Keep outputs = infinity::Keep::nothing();
  infinity::Keep targets = infinity::Keep::nothing();
  infinity::Keep losses = infinity::Keep::last_batches(10'000);
  /// Each gets what is dropped to make room, of Keep::nothing() everything: to write it to a disk, ...
  infinity::Container<infinity::Tensors>::Dropped dropped_inputs = {};
  infinity::Container<infinity::Tensors>::Dropped dropped_outputs = {};
  infinity::Container<infinity::Tensors>::Dropped dropped_targets = {};
  infinity::Container<KeptLoss>::Dropped dropped_losses = {};
};

struct InfinityBatchOptions {
  /// How many samples go through the model at a time: by default found by trying.
  infinity::MicroBatchOptions micro_batch;
  /// Bytes of the model's device that training may use; 0: what there is.
  std::int64_t memory_budget = 0;
  /// Where outputs, targets and losses go (the seed's backward device); empty: where the model is.
  std::optional<at::Device> backward_device;
  /// Whether the first micro-batches must show that losses of parts make up the loss of the whole.
  bool check_criterion = true;
  /// What becomes of batch normalisation in training mode.
  infinity::BatchNorm batch_norm = infinity::BatchNorm::refuse;
  /// Tensors of so many bytes and more that a graph keeps for its backward pass wait on the host; 0: none.
  std::int64_t offload_at_least = 0;
  /// Where the optimizers' states lie instead of the device's memory (speedtorch/infinity/state_host.h);
  /// empty: where they are.
  std::optional<TableOptions> states_home;
  /// Fetch the next micro-batch (from a mapped file, or over the link to a GPU) while this one is at work.
  bool prefetch = false;
  infinity::WarningPlan warnings = infinity::WarningPlan::normal();
  infinity::Warnings::Sink warning_sink;  ///< empty: a line on standard error
  KeepOptions keep;
};

/// What eval() found; means are weighted by samples.
struct Evaluation {
  double loss = 0;
  std::vector<double> of_parts;           ///< the criterion's, where it has several
  std::map<std::string, double> metrics;  ///< by name
  std::int64_t samples = 0;
  std::int64_t batches = 0;
};

/// Three ways of use: `ib(200)` or `train(200)`; `epoch()` in a loop; or `batch`, one's own loss and its
/// `backward()`, `step`, `zero_grad`. Not for several threads at once.
class InfinityBatch {
 public:
  /// A number for one batch, weighted by its samples: share of right answers, ...
  using Metric = std::function<double(const infinity::Tensors& outputs, const infinity::Tensors& targets)>;

  explicit InfinityBatch(InfinityBatchOptions options = {});
  InfinityBatch(infinity::Model model, infinity::Optimizer optimizer, infinity::Criterion criterion,
                infinity::Data data, InfinityBatchOptions options = {});
  /// Several optimizers: a step is one of all of them, or of none.
  InfinityBatch(infinity::Model model, std::vector<infinity::Optimizer> optimizers,
                infinity::Criterion criterion, infinity::Data data, InfinityBatchOptions options = {});
  ~InfinityBatch();
  InfinityBatch(const InfinityBatch&) = delete;
  InfinityBatch& operator=(const InfinityBatch&) = delete;

  /// Set once; a second time is a warning, and the first stays.
  void set_model(infinity::Model model);
  void set_optimizer(infinity::Optimizer optimizer);
  void set_optimizers(std::vector<infinity::Optimizer> optimizers);
  void set_criterion(infinity::Criterion criterion);
  /// As often as one likes; an epoch that was interrupted is given up.
  void set_data(infinity::Data data);
  void listen(std::shared_ptr<infinity::Listener> listener);

  /// Clears the containers and trains so many epochs, of which the first may be one that was interrupted.
  /// @returns the last one's. @throws InfinityBatchError for less than none
  infinity::EpochRecord train(std::int64_t epochs);
  infinity::EpochRecord operator()(std::int64_t epochs) { return train(epochs); }
  /// One pass over the data: for each batch gradients, step, zero_grad. What is thrown meanwhile (by the
  /// data, a listener, for want of memory) leaves no trace of the batch that it was in: its gradients are
  /// dropped, and the next epoch() goes on with that batch. A batch that was stepped counts.
  /// @throws InfinityBatchError where something was not set, or where the data has no batch
  infinity::EpochRecord epoch();

  /// Outputs of a batch of any size, for a loss of one's own: its `backward()` makes the model's gradients
  /// micro-batch by micro-batch. Under at::NoGradGuard just the outputs.
  at::Tensor batch(const at::Tensor& inputs);
  infinity::Tensors batch(const infinity::Tensors& inputs);
  /// Loss and gradients of a batch by the criterion, in one pass where it allows that: half the forward work
  /// of batch().
  infinity::BatchResult backward(const infinity::Batch& batch);
  /// @throws OutOfMemory with everything as before
  void step();
  void zero_grad();

  /// Loss and metrics without gradients and in evaluation mode; the mode is put back.
  Evaluation eval(const infinity::Data& data, const std::map<std::string, Metric>& metrics = {});

  /// That of the first trainable parameter.
  [[nodiscard]] at::Device forward_device() const;
  [[nodiscard]] at::Device backward_device() const;
  /// Moves the model and the optimizers' states.
  void change_model_device(at::Device device);
  /// @throws InfinityBatchError naming the first parameter that is elsewhere than the others; a warning where
  /// targets and outputs will be on a device that the criterion's tensors are not on
  void check_devices() const;

  [[nodiscard]] const infinity::Container<infinity::Tensors>& inputs() const { return inputs_; }
  [[nodiscard]] const infinity::Container<infinity::Tensors>& outputs() const { return outputs_; }
  [[nodiscard]] const infinity::Container<infinity::Tensors>& targets() const { return targets_; }
  [[nodiscard]] const infinity::Container<KeptLoss>& losses() const { return losses_; }
  void clear_containers();

  /// All that training needs to go on: parameters, buffers, states, generators, place in the data,
  /// micro-batch sizes. Whole or not at all. Not between gradients and step of a batch of epoch(), where
  /// draws are half made: in stepped(), not in batch_ends(). @throws FileError, InfinityBatchError
  void save(const std::string& path);
  /// Goes on where that was saved, in the middle of an epoch if need be: what follows is, on the same machine
  /// and data, bit for bit what would have followed. The batches of the epoch that were done are asked for
  /// and dropped.
  /// @throws FileError, InfinityBatchError where model or optimizers are others
  void resume(const std::string& path);

  [[nodiscard]] const infinity::Place& place() const { return place_; }
  [[nodiscard]] infinity::Warnings& warnings() { return *warnings_; }
  /// What was found, for each shape of sample.
  [[nodiscard]] infinity::MicroBatchSize& micro_batch_size();
  [[nodiscard]] const infinity::OffloadFigures& offloaded() { return micro_batches().offloaded(); }
  /// Micro-batches that were fetched before they were asked for.
  [[nodiscard]] std::int64_t prefetched() { return micro_batches().prefetched(); }
  [[nodiscard]] std::int64_t steps_taken_back() const { return guard_.taken_back(); }
  /// On the host, for the copy that a step can be taken back to; none for an optimizer that allocates
  /// nothing.
  [[nodiscard]] std::int64_t step_copy_bytes() const { return guard_.bytes(); }
  /// Of options.states_home.
  [[nodiscard]] std::int64_t hosted_state_bytes() const { return state_host_ ? state_host_->bytes() : 0; }

 private:
  /// Of the running epoch; means are made of it at the end.
  struct Totals {
    double loss = 0;  ///< times samples, as the parts
    std::vector<double> of_parts;
    infinity::EpochRecord record;
  };
  infinity::Data::Next start_epoch();
  infinity::Data::Next new_epoch();
  infinity::Data::Next resumed_epoch();
  infinity::MicroBatches& micro_batches();
  void require_all() const;
  /// What is to be kept of a batch.
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
  std::optional<infinity::Batch> pending_;          ///< given by the data and not stepped yet
  bool in_batch_ = false;                           ///< between its begin and its step
  std::optional<infinity::TrainingState> resumed_;  ///< until its epoch goes on
  infinity::Tensors random_of_epoch_;
  infinity::Container<infinity::Tensors> inputs_;
  infinity::Container<infinity::Tensors> outputs_;
  infinity::Container<infinity::Tensors> targets_;
  infinity::Container<KeptLoss> losses_;
};

}  // namespace speedtorch
