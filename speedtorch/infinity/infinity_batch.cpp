#include "speedtorch/infinity/infinity_batch.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "speedtorch/infinity/out_of_memory.h"
#include "speedtorch/infinity/undo.h"

namespace speedtorch {

using namespace infinity;  // NOLINT(google-build-using-namespace)

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Adds the loss of a batch and of its parts, weighted by samples.
void add_weighted(const BatchResult& result, double& loss, std::vector<double>& of_parts) {
  const auto weight = static_cast<double>(result.samples);
  loss += result.loss * weight;
  of_parts.resize(result.of_parts.size());
  for (std::size_t i = 0; i < of_parts.size(); ++i) of_parts[i] += result.of_parts[i] * weight;
}

/// Divides the sums of add_weighted() by the samples.
template <class Record>
void write_means(Record& record, double loss, const std::vector<double>& of_parts) {
  const auto samples = static_cast<double>(record.samples);
  record.loss = loss / samples;
  record.of_parts = of_parts;
  for (double& part : record.of_parts) part /= samples;
}

/// Runs `work`; if memory runs out, empties LibTorch's cache and runs it once more.
template <class Work>
void retry_with_empty_cache(at::Device device, const Work& work) {
  if (had_memory_for(work)) return;
  free_cached_memory(device);
  work();
}

/// Evaluation mode while it lives; then restores the mode of each module.
class EvaluationMode {
 public:
  explicit EvaluationMode(const Model& model) : modes_(model.modes()) { model.train(false); }
  ~EvaluationMode() { Model::set_modes(modes_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Model::Modes modes_;
  at::NoGradGuard no_grad_;
};

/// Sets a variable, and sets it to another value at the end of the scope.
template <class T>
class ScopedValue {
 public:
  ScopedValue(T& variable, T value, T afterwards) : variable_(variable), afterwards_(afterwards) {
    variable = value;
  }
  ~ScopedValue() { variable_ = afterwards_; }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& variable_;
  T afterwards_;
};

}  // namespace

InfinityBatch::InfinityBatch(InfinityBatchOptions options)
    : options_(std::move(options)),
      warnings_(std::make_shared<Warnings>(options_.warnings, options_.warning_sink)),
      monitor_(warnings_),
      inputs_(options_.keep.inputs, options_.keep.dropped_inputs),
      outputs_(options_.keep.outputs, options_.keep.dropped_outputs),
      targets_(options_.keep.targets, options_.keep.dropped_targets),
      losses_(options_.keep.losses, options_.keep.dropped_losses) {
  if (options_.states_home) state_host_.emplace(*options_.states_home);
}

InfinityBatch::InfinityBatch(Model model, Optimizer optimizer, Criterion criterion, Data data,
                             InfinityBatchOptions options)
    : InfinityBatch(std::move(model), std::vector{std::move(optimizer)}, std::move(criterion),
                    std::move(data), std::move(options)) {}

InfinityBatch::InfinityBatch(Model model, std::vector<Optimizer> optimizers, Criterion criterion, Data data,
                             InfinityBatchOptions options)
    : InfinityBatch(std::move(options)) {
  set_model(std::move(model));
  set_optimizers(std::move(optimizers));
  set_criterion(std::move(criterion));
  set_data(std::move(data));
}

/// Outputs whose backward pass is still to come share the hooks, which must not call this object.
InfinityBatch::~InfinityBatch() {
  if (micro_batches_) micro_batches_->set_hooks({});
}

void InfinityBatch::set_model(Model model) {
  if (model_) return warnings_->warn(Warning::set_twice, "the model was set before; the first one stays");
  micro_batches_.emplace(model,
                         MicroBatchesOptions{.micro_batch = options_.micro_batch,
                                             .memory_budget = options_.memory_budget,
                                             .output_device = options_.backward_device,
                                             .check_criterion = options_.check_criterion,
                                             .batch_norm = options_.batch_norm,
                                             .offload_at_least = options_.offload_at_least,
                                             .prefetch = options_.prefetch},
                         warnings_);
  model_ = std::move(model);
  const auto other_bytes = [this] {
    std::int64_t bytes = 0;
    for (const Optimizer& optimizer : optimizers_) bytes += state_host_ ? 0 : state_bytes(optimizer);
    return bytes;
  };
  micro_batches_->set_hooks({.on_micro_batch =
                                 [this](const MicroBatchProgress& progress) {
                                   notify(
                                       [&](Listener& listener) { listener.micro_batch(place_, progress); });
                                 },
                             .on_gradients = [this] { monitor_.gradients_made(); },
                             .other_bytes = other_bytes});
}

void InfinityBatch::set_optimizer(Optimizer optimizer) { set_optimizers({std::move(optimizer)}); }

void InfinityBatch::set_optimizers(std::vector<Optimizer> optimizers) {
  if (!optimizers_.empty())
    return warnings_->warn(Warning::set_twice, "the optimizer was set before; the first one stays");
  optimizers_ = std::move(optimizers);
}

void InfinityBatch::set_criterion(Criterion criterion) {
  if (criterion_)
    return warnings_->warn(Warning::set_twice, "the criterion was set before; the first one stays");
  static_cast<void>(criterion.reduction());  // throws for one loss per sample
  criterion_ = std::move(criterion);
}

void InfinityBatch::set_data(Data data) {
  data_ = std::move(data);
  next_ = {};
  pending_.reset();
}

void InfinityBatch::listen(std::shared_ptr<Listener> listener) {
  if (!listener) throw InfinityBatchError("a listener is a null pointer");
  listeners_.push_back(std::move(listener));
}

/// By index, because a listener may add another one.
template <class Call>
void InfinityBatch::notify(Call call) {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    const auto listener = listeners_[i];
    call(*listener);
  }
}

void InfinityBatch::require_all() const {
  const auto require = [](bool there, const char* what) {
    if (!there)
      throw InfinityBatchError(std::string("there is no ") + what + " yet: set_" + what +
                               "() before training");
  };
  require(model_.has_value(), "model");
  require(!optimizers_.empty(), "optimizer");
  require(criterion_.has_value(), "criterion");
}

MicroBatches& InfinityBatch::micro_batches() {
  if (!micro_batches_) throw InfinityBatchError("there is no model yet: set_model() before the first batch");
  return *micro_batches_;
}

EpochRecord InfinityBatch::train(std::int64_t epochs) {
  if (epochs < 0) throw InfinityBatchError("train(" + std::to_string(epochs) + "): take 0 epochs or more");
  clear_containers();
  const ScopedValue<std::int64_t> until(place_.epochs, place_.epoch + epochs, 0);
  notify([&](Listener& listener) { listener.train_begins(place_); });
  EpochRecord last;
  const auto stopped = [&] {
    return std::any_of(listeners_.begin(), listeners_.end(),
                       [](const auto& listener) { return listener->stop(); });
  };
  for (std::int64_t done = 0; done < epochs && !stopped(); ++done) last = epoch();
  notify([&](Listener& listener) { listener.train_ends(place_); });
  return last;
}

/// Resumes an interrupted epoch with its current batch.
EpochRecord InfinityBatch::epoch() {
  require_all();
  if (!data_) throw InfinityBatchError("there is no data yet: set_data() before training");
  const auto start = Clock::now();
  if (!next_) {
    next_ = start_epoch();
    notify([&](Listener& listener) { listener.epoch_begins(place_); });
  }
  bool stopped = false;
  while (!stopped) {
    if (!pending_) pending_ = next_();
    if (!pending_) break;
    train_batch(Batch(*pending_));
    for (const auto& listener : listeners_) stopped = stopped || listener->stop();
  }
  next_ = {};
  EpochRecord record = totals_.record;
  if (record.samples == 0) throw InfinityBatchError("the data gave no batch in this epoch");
  write_means(record, totals_.loss, totals_.of_parts);
  record.place = place_;
  record.batches = place_.batch;
  record.seconds = seconds_since(start);
  ++place_.epoch;
  place_.batch = 0;
  notify([&](Listener& listener) { listener.epoch_ends(record); });
  return record;
}

/// The data of this epoch from its beginning, or from where it was interrupted. Then the order is drawn as
/// before, and later random draws are as they would have been.
Data::Next InfinityBatch::start_epoch() {
  inputs_.begin_epoch();
  outputs_.begin_epoch();
  targets_.begin_epoch();
  losses_.begin_epoch();
  Data::Next next;
  const auto start = [&] { next = resumed_ && resumed_->place.batch > 0 ? resumed_epoch() : new_epoch(); };
  retry_with_empty_cache(forward_device(), start);
  resumed_.reset();
  return next;
}

Data::Next InfinityBatch::new_epoch() {
  random_of_epoch_ = random_states(forward_device());
  Data::Next next = data_->start(place_.epoch);
  place_.batch = 0;
  totals_ = {};
  return next;
}

Data::Next InfinityBatch::resumed_epoch() {
  set_random_states(resumed_->random_of_epoch, forward_device());
  random_of_epoch_ = resumed_->random_of_epoch;
  Data::Next next = data_->start(place_.epoch);
  for (std::int64_t done = 0; done < place_.batch; ++done)
    if (!next())
      throw InfinityBatchError("the data has fewer batches per epoch than when the checkpoint was saved");
  set_random_states(resumed_->random, forward_device());
  return next;
}

void InfinityBatch::train_batch(const Batch& batch) {
  notify([&](Listener& listener) { listener.batch_begins(place_, batch); });
  Kept kept;
  const BatchResult result = gradients_and_step(batch, kept);
  pending_.reset();
  ++place_.batch;
  add_weighted(result, totals_.loss, totals_.of_parts);
  EpochRecord& all = totals_.record;
  all.samples += result.samples;
  all.micro_batches += result.micro_batches;
  all.largest_micro_batch = std::max(all.largest_micro_batch, result.largest_micro_batch);
  all.refusals += result.refusals;
  zero_grad();
  add_to_containers(std::move(kept), result);
  notify([&](Listener& listener) { listener.stepped(place_); });
}

/// Computes gradients and steps. If it throws, restores buffers and generators and drops the gradients.
BatchResult InfinityBatch::gradients_and_step(const Batch& batch, Kept& kept) {
  const ScopedValue<bool> in_batch(in_batch_, true, false);
  const auto start = Clock::now();
  std::optional<Undo> before;
  const auto note = [&] { before.emplace(*model_, forward_device()); };
  retry_with_empty_cache(forward_device(), note);
  const BatchResult result = gradients(batch);
  try {
    const BatchRecord record{
        .place = place_, .batch = &batch, .result = &result, .seconds = seconds_since(start)};
    notify([&](Listener& listener) { listener.batch_ends(record); });
    const auto copy = [&] { kept = to_keep(batch, result); };
    retry_with_empty_cache(forward_device(), copy);
    step();
  } catch (...) {
    before->restore();
    drop_gradients();
    throw;
  }
  return result;
}

void InfinityBatch::drop_gradients() {
  monitor_.gradients_dropped();
  for (const Optimizer& optimizer : optimizers_) optimizer.zero_grad();
}

BatchResult InfinityBatch::gradients(const Batch& batch) {
  monitor_.inspect(*model_, optimizers_, &*criterion_);
  place_states();
  return micro_batches_->backward(batch, *criterion_, outputs_.wants() || targets_.wants());
}

void InfinityBatch::place_states() {
  for (const Optimizer& optimizer : optimizers_)
    if (state_host_) state_host_->place_states(optimizer);
}

/// Made before the step, because it may fail, and a step cannot be repeated.
InfinityBatch::Kept InfinityBatch::to_keep(const Batch& batch, const BatchResult& result) const {
  Kept kept;
  if (outputs_.wants()) kept.outputs = on_device(result.outputs, at::kCPU);
  if (targets_.wants()) kept.targets = on_device(result.targets, at::kCPU);
  if (inputs_.wants()) kept.inputs = on_device(batch.samples(0, batch.size()).inputs, at::kCPU);
  return kept;
}

void InfinityBatch::add_to_containers(Kept kept, const BatchResult& result) {
  losses_.add({result.loss, result.samples});
  if (outputs_.wants()) outputs_.add(std::move(kept.outputs));
  if (inputs_.wants()) inputs_.add(std::move(kept.inputs));
  if (targets_.wants()) targets_.add(std::move(kept.targets));
}

at::Tensor InfinityBatch::batch(const at::Tensor& inputs) {
  Tensors outputs = batch(Tensors{inputs});
  if (outputs.size() != 1)
    throw InfinityBatchError("the model has " + std::to_string(outputs.size()) +
                             " outputs: call batch() with a vector of inputs to get them all");
  return outputs.front();
}

Tensors InfinityBatch::batch(const Tensors& inputs) {
  MicroBatches& work = micro_batches();
  if (at::GradMode::is_enabled()) {
    monitor_.inspect(*model_, optimizers_, criterion_ ? &*criterion_ : nullptr);
    monitor_.batch_made();
  }
  return work.outputs(inputs);
}

BatchResult InfinityBatch::backward(const Batch& batch) {
  if (!criterion_) throw InfinityBatchError("there is no criterion yet: set_criterion() before backward()");
  micro_batches();
  return gradients(batch);
}

bool InfinityBatch::has_gradients() const {
  for (const Optimizer& optimizer : optimizers_)
    for (const at::Tensor& parameter : optimizer.parameters())
      if (parameter.grad().defined()) return true;
  return false;
}

void InfinityBatch::step() {
  if (optimizers_.empty())
    throw InfinityBatchError("there is no optimizer yet: set_optimizer() before step()");
  monitor_.stepping(has_gradients());
  place_states();
  guard_.step(optimizers_);
  ++place_.step;
}

void InfinityBatch::zero_grad() {
  monitor_.zeroing();
  for (const Optimizer& optimizer : optimizers_) optimizer.zero_grad();
}

Evaluation InfinityBatch::eval(const Data& data, const std::map<std::string, Metric>& metrics) {
  MicroBatches& work = micro_batches();
  if (!criterion_) throw InfinityBatchError("there is no criterion yet: set_criterion() before eval()");
  const EvaluationMode evaluating(*model_);
  Evaluation found;
  double loss = 0;
  std::vector<double> of_parts;
  for (auto next = data.start(0); const auto batch = next();) {
    const BatchResult result = work.evaluate(*batch, *criterion_, !metrics.empty());
    add_weighted(result, loss, of_parts);
    found.samples += result.samples;
    ++found.batches;
    if (metrics.empty()) continue;
    for (const auto& [name, metric] : metrics)
      found.metrics[name] += metric(result.outputs, result.targets) * static_cast<double>(batch->size());
  }
  if (found.samples == 0) throw InfinityBatchError("the data to evaluate with gave no batch");
  write_means(found, loss, of_parts);
  for (auto& [name, value] : found.metrics) value /= static_cast<double>(found.samples);
  return found;
}

at::Device InfinityBatch::forward_device() const { return model_ ? model_->device() : at::Device(at::kCPU); }

at::Device InfinityBatch::backward_device() const {
  return options_.backward_device.value_or(forward_device());
}

void InfinityBatch::change_model_device(at::Device device) {
  micro_batches();
  model_->to(device);
  for (const Optimizer& optimizer : optimizers_) move_states(optimizer);
}

void InfinityBatch::check_devices() const {
  if (!model_) throw InfinityBatchError("there is no model yet: set_model() before check_devices()");
  const at::Device device = forward_device();
  const auto require_there = [&](const std::vector<NamedTensor>& all, const char* what, const char* others) {
    for (const NamedTensor& named : all)
      if (named.tensor.device() != device)
        throw InfinityBatchError(what + named.name + " is on " + named.tensor.device().str() + " and the " +
                                 others + " on " + device.str() + ": change_model_device() moves all");
  };
  require_there(model_->named_parameters(), "parameter ", "first trainable one");
  require_there(model_->named_buffers(), "buffer ", "parameters");
  if (!criterion_) return;
  for (const at::Tensor& tensor : criterion_->tensors())
    if (tensor.device() != backward_device())
      warnings_->warn(Warning::device, "a tensor of the criterion is on " + tensor.device().str() +
                                           ", but outputs and targets are on " + backward_device().str());
}

void InfinityBatch::save(const std::string& path) {
  if (in_batch_)
    throw InfinityBatchError(
        "save() was called between gradients and step of a batch, whose draws and statistics are incomplete; "
        "call it in stepped() or between epochs");
  TrainingState state{.place = place_,
                      .random = random_states(forward_device()),
                      .random_of_epoch = random_of_epoch_,
                      .sizes = micro_batches().sizes().entries(),
                      .so_far = totals_.record};
  state.so_far.loss = totals_.loss;
  state.so_far.of_parts = totals_.of_parts;
  save_checkpoint(path, *model_, optimizers_, state);
}

void InfinityBatch::resume(const std::string& path) {
  MicroBatches& work = micro_batches();
  TrainingState state = load_checkpoint(path, *model_, optimizers_);
  place_ = state.place;
  next_ = {};
  pending_.reset();
  work.sizes().remember(state.sizes);
  set_random_states(state.random, forward_device());
  totals_ = {.loss = state.so_far.loss, .of_parts = state.so_far.of_parts, .record = state.so_far};
  resumed_ = std::move(state);
}

void InfinityBatch::clear_containers() {
  inputs_.clear();
  outputs_.clear();
  targets_.clear();
  losses_.clear();
}

MicroBatchSize& InfinityBatch::micro_batch_size() { return micro_batches().sizes(); }

}  // namespace speedtorch
