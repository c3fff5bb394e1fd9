#include "speedtorch/infinity/batch_run.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity/layer_watch.h"
#include "speedtorch/infinity/memory_monitor.h"
#include "speedtorch/infinity/normalisation_dispatch.h"
#include "speedtorch/infinity/out_of_memory.h"

namespace speedtorch::infinity {
namespace {

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
}

/// A normalisation was noticed. Not a std::exception, so that no handler takes it for an error.
struct Noticed {};

}  // namespace

BatchRun::BatchRun(MicroBatchContext& context, const Batch& batch, bool with_gradients)
    : result{.samples = batch.size()},
      context_(context),
      batch_(batch),
      with_gradients_(with_gradients),
      device_(context.model.device()) {
  if (batch.size() == 0) throw InfinityBatchError("the batch has no samples");
  if (context.in_hook)
    throw InfinityBatchError(
        "a listener began a batch in its micro_batch(), within another batch; begin it in batch_ends() or "
        "stepped()");
  if (context.prefetch) context.prefetch->discard();
  retry_after_oom("one sample",
                  [&] { key_ = (with_gradients ? "gradients of " : "outputs of ") + batch.shape(); });
}

at::Device BatchRun::output_device() const { return options().output_device.value_or(device_); }

Samples BatchRun::fetch(std::int64_t first, std::int64_t count) {
  if (!context_.prefetch) {
    const Samples samples = batch_.samples(first, count);
    return {on_device(samples.inputs, device_), on_device(samples.targets, output_device())};
  }
  const std::int64_t next = next_of(batch_.size() - first - count);
  Samples samples = context_.prefetch->take(batch_, first, count, next, device_, output_device());
  std::int64_t bytes = 0;
  for (const Tensors* tensors : {&samples.inputs, &samples.targets})
    for (const at::Tensor& tensor : *tensors) bytes += bytes_of(tensor);
  fetched_bytes_ = bytes + bytes / count * next;
  return samples;
}

Tensors BatchRun::run_model(const Tensors& inputs) const {
  return on_device(model()(inputs), output_device());
}

/// The first micro-batch of each batch is examined for normalisations that take statistics of its samples. To
/// notice one costs nothing. To trace the operations and their arguments costs 10 us, so the micro-batch is
/// repeated with a trace only if one was noticed.
Tensors BatchRun::forward(const Tensors& inputs) {
  if (batch_norm_checked_ || options().batch_norm == BatchNorm::exact) return run_model(inputs);
  if (!context_.expect_batch_norm) {
    const NormalisationNotice notice;
    Tensors outputs = run_model(inputs);
    if (notice.noticed()) throw Noticed();
    batch_norm_checked_ = true;
    return outputs;
  }
  const LayerWatch watch;
  Tensors outputs = run_model(inputs);
  context_.expect_batch_norm = watch.saw_batch_norm();
  batch_norm_checked_ = true;
  judge_batch_norm(watch);
  judge_instance_norm(watch);
  return outputs;
}

void BatchRun::judge_batch_norm(const LayerWatch& watch) {
  if (!watch.saw_batch_statistics()) return;
  if (options().batch_norm == BatchNorm::refuse)
    throw InfinityBatchError(
        "the model's batch normalisation takes statistics of its samples, and those of a micro-batch differ "
        "from the batch's. Use group or layer normalisation; put the modules into evaluation mode; or set "
        "BatchNorm::per_micro_batch (each micro-batch has its own statistics) or BatchNorm::exact (the "
        "batch's statistics, for two more passes per normalisation)");
  warn(Warning::batch_norm,
       "batch normalisation takes the statistics of each micro-batch, and its running "
       "statistics move once per micro-batch");
}

void BatchRun::judge_instance_norm(const LayerWatch& watch) {
  if (!watch.moved_instance_statistics()) return;
  if (options().batch_norm != BatchNorm::per_micro_batch)
    throw InfinityBatchError(
        "the running statistics of the model's instance normalisation would move once per micro-batch and so "
        "differ from the batch's. Use track_running_stats(false); put the modules into evaluation mode; or "
        "set BatchNorm::per_micro_batch, which accepts this");
  warn(Warning::batch_norm, "the running statistics of instance normalisation move once per micro-batch");
}

/// Lets the size grow after a micro-batch that worked, within the budget if there is one.
void BatchRun::worked(std::int64_t count, std::int64_t bytes_taken) {
  const std::int64_t budget = options().memory_budget;
  if (budget == 0) {
    context_.sizes.worked(key_, count);
    return;
  }
  std::int64_t held = context_.hooks.other_bytes ? context_.hooks.other_bytes() : 0;
  for (const at::Tensor& parameter : model().parameters())  // with its gradient, and this batch's sum
    held += bytes_of(parameter) * (with_gradients_ && parameter.requires_grad() ? 2 : 1) +
            bytes_of(parameter.grad());
  const std::int64_t free = budget - held - bytes_taken;
  const bool smallest = count <= least() || options().micro_batch.fixed > 0;
  if (free < 0 && smallest && count < batch_.size())
    throw OutOfMemory("a micro-batch of " + std::to_string(count) + " samples of " + key_ + " takes " +
                      std::to_string(bytes_taken) + " bytes beside the " + std::to_string(held) +
                      " of parameters, gradients and states, and options.memory_budget is " +
                      std::to_string(budget) + "; no gradient was changed");
  context_.sizes.worked(key_, count, bytes_taken, free);
}

std::int64_t BatchRun::least() const { return options().batch_norm == BatchNorm::refuse ? 1 : 2; }

std::int64_t BatchRun::most_of(std::int64_t left) const {
  const std::int64_t count = std::min(std::max(context_.sizes.of(key_), least()), left);
  return least() > 1 && count == least() && left - count == 1 ? left : count;
}

std::int64_t BatchRun::next_of(std::int64_t left) const {
  if (left == 0) return 0;
  const std::int64_t size = context_.sizes.next(key_, batch_.size(), left);
  const std::int64_t count = std::min(std::max(size, least()), left);
  if (least() == 1 || left - count != 1) return count;
  return count == least() ? left : count - 1;  // no single sample is left over
}

/// The time in seconds, when all work of the device is done.
double BatchRun::now() const {
  if (options().micro_batch.clock) return options().micro_batch.clock();
  synchronize_cuda(device_);
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void BatchRun::report(const MicroBatchProgress& progress) {
  if (!context_.hooks.on_micro_batch) return;
  context_.in_hook = true;
  const struct Reset {
    bool& flag;
    ~Reset() { flag = false; }
  } reset{context_.in_hook};
  context_.hooks.on_micro_batch(progress);
}

/// Restores the model's buffers and the generators unless `work` ends. False if memory ran out.
/// @param bytes_taken receives the peak of `work`; 0 if there is no budget
bool BatchRun::run_with_rollback(const std::function<void()>& work, std::int64_t& bytes_taken) {
  const Undo* undo = std::exchange(start_, nullptr);
  std::optional<Undo> own;
  std::optional<MemoryMonitor> monitor;
  bool had_memory = false;
  try {
    had_memory = had_memory_for([&] {
      if (!undo) undo = &own.emplace(model(), device_);
      std::optional<MemoryMonitor::Watch> watch;
      if (options().memory_budget > 0) watch.emplace(monitor.emplace());
      std::optional<Offload> offload;
      if (options().offload_at_least > 0)
        offload.emplace(options().offload_at_least, model().trainable(), context_.offloaded);
      work();
    });
  } catch (...) {
    if (undo) undo->restore();
    throw;
  }
  if (!had_memory && undo) undo->restore();
  // The monitor does not see what the prefetching thread allocates.
  bytes_taken = had_memory && monitor ? monitor->figures(device_).peak_bytes + fetched_bytes_ : 0;
  return had_memory;
}

bool BatchRun::try_micro_batch(std::int64_t first, std::int64_t count, const Attempt& attempt) {
  // The second of two passes needs more memory than the first, so only the second is sized.
  const bool is_sized = !with_gradients_ || at::GradMode::is_enabled();
  // The first micro-batch of a batch may be traced, for any size. So it is not compared.
  const bool is_timed = is_sized && context_.sizes.compares(key_) && (first > 0 || count == batch_.size());
  double began = is_timed ? now() : 0;
  std::int64_t bytes_taken = 0;
  bool had_memory = false;
  const auto work = [&] { attempt(first, count); };
  try {
    had_memory = run_with_rollback(work, bytes_taken);
  } catch (const Noticed&) {
    context_.expect_batch_norm = true;
    began = is_timed ? now() : 0;
    had_memory = run_with_rollback(work, bytes_taken);
  }
  if (!had_memory) {
    ran_out(first, count);
    return false;
  }
  if (is_timed) context_.sizes.timed(key_, count, now() - began);
  ++result.micro_batches;
  result.largest_micro_batch = std::max(result.largest_micro_batch, count);
  if (is_sized) worked(count, bytes_taken);
  report({first, count, true});
  return true;
}

void BatchRun::ran_out(std::int64_t first, std::int64_t count) {
  ++result.refusals;
  free_cached_memory(device_);
  const auto answer = context_.sizes.ran_out(key_, count);
  const bool as_small_as_may_be =
      answer == MicroBatchSize::Answer::smaller && most_of(batch_.size() - first) >= count;
  if (answer == MicroBatchSize::Answer::give_up || as_small_as_may_be)
    throw OutOfMemory("a micro-batch of " + std::to_string(count) + " samples of " + key_ +
                      " does not fit into memory; no gradient was changed");
  if (answer == MicroBatchSize::Answer::smaller)
    warn(Warning::smaller, "memory ran out with " + std::to_string(count) + " samples; from now on " +
                               std::to_string(context_.sizes.of(key_)));
  report({first, count, false});
}

void BatchRun::for_each_micro_batch(const Attempt& attempt) {
  for (std::int64_t first = 0; first < batch_.size();) {
    const std::int64_t count = next_of(batch_.size() - first);
    if (try_micro_batch(first, count, attempt)) first += count;
  }
}

void BatchRun::retry_after_oom(const std::string& what, const std::function<void()>& work) {
  for (int tries = 0; tries < 2; ++tries) {
    if (had_memory_for(work)) return;
    ++result.refusals;
    free_cached_memory(device_);
  }
  throw OutOfMemory(what + " does not fit into memory; no gradient was changed");
}

}  // namespace speedtorch::infinity
