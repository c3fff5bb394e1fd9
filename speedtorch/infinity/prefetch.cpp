#include "speedtorch/infinity/prefetch.h"

#include <ATen/core/grad_mode.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "speedtorch/error.h"
#include "speedtorch/threads.h"
#ifdef SPEEDTORCH_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

namespace speedtorch::infinity {
namespace staging {

struct Job {
  Batch batch;
  std::int64_t first;
  std::int64_t count;
  at::Device inputs;
  at::Device targets;
};

#ifdef SPEEDTORCH_HAS_CUDA
/// What makes the model's stream wait for the copies.
class Arrival {
 public:
  explicit Arrival(c10::cuda::CUDAStream stream) : stream_(stream) {
    if (cudaEventCreateWithFlags(&event_, cudaEventDisableTiming) != cudaSuccess ||
        cudaEventRecord(event_, stream) != cudaSuccess)
      throw CudaError("cudaEventRecord", cudaGetErrorName(cudaGetLastError()), "of a prefetched micro-batch");
  }
  ~Arrival() { cudaEventDestroy(event_); }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  void await(const Samples& samples) const {
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(stream_.device_index());
    if (cudaStreamWaitEvent(current, event_, 0) != cudaSuccess)
      throw CudaError("cudaStreamWaitEvent", cudaGetErrorName(cudaGetLastError()),
                      "of a prefetched micro-batch");
    for (const Tensors* tensors : {&samples.inputs, &samples.targets})
      for (const at::Tensor& tensor : *tensors)
        if (tensor.is_cuda())
          c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), current);
  }

 private:
  c10::cuda::CUDAStream stream_;
  cudaEvent_t event_ = nullptr;
};
#endif

/// Samples that are on their way, or there.
struct Fetched {
  Samples samples;
#ifdef SPEEDTORCH_HAS_CUDA
  std::shared_ptr<Arrival> arrival;
#endif
};

#ifdef SPEEDTORCH_HAS_CUDA
Tensors pinned(const Tensors& tensors) {
  Tensors found;
  for (const at::Tensor& tensor : tensors)
    found.push_back(tensor.is_cpu() && !tensor.is_pinned() ? tensor.pin_memory() : tensor);
  return found;
}

Fetched to_gpu(const Job& job, Samples samples) {
  const at::Device gpu = job.inputs.is_cuda() ? job.inputs : job.targets;
  thread_local const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(false, gpu.index());
  const c10::cuda::CUDAStreamGuard on_stream(stream);
  const Samples from{pinned(samples.inputs), pinned(samples.targets)};
  Fetched fetched{{on_device(from.inputs, job.inputs), on_device(from.targets, job.targets)}, nullptr};
  fetched.arrival = std::make_shared<Arrival>(stream);
  return fetched;
}
#endif

/// Copied, also on the host: a view of a mapped file is only read when it is touched.
Fetched fetch(const Job& job) {
  const at::NoGradGuard no_grad;
  Samples samples = job.batch.samples(job.first, job.count);
#ifdef SPEEDTORCH_HAS_CUDA
  if (job.inputs.is_cuda() || job.targets.is_cuda()) return to_gpu(job, std::move(samples));
#endif
  const auto copied = [](const Tensors& tensors, at::Device device) {
    Tensors found;
    for (const at::Tensor& tensor : tensors)
      found.push_back(tensor.to(tensor.options().device(device), false, true));
    return found;
  };
  return {{copied(samples.inputs, job.inputs), copied(samples.targets, job.targets)}};
}

}  // namespace staging

using staging::Fetched;
using staging::Job;

class Prefetch::Worker {
 public:
  Worker() : thread_(start_thread("InfinityBatch's prefetching (options.prefetch)", [this] { work(); })) {}

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// In a child that was forked from the process of its thread. Nothing else may be asked of it there: the
  /// mutex may be the thread's for ever.
  [[nodiscard]] bool is_of_parent() const { return ::getpid() != owner_; }

  void begin(Job job) {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
    fetched_.reset();
    busy_ = true;
    changed_.notify_all();
  }

  /// What was fetched, once it is; nothing where it is not what was asked for, or failed.
  std::optional<Fetched> result(std::int64_t first, std::int64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
    const bool wanted = job_ && job_->first == first && job_->count == count;
    job_.reset();
    std::optional<Fetched> found = std::exchange(fetched_, std::nullopt);
    if (!wanted || !found) return std::nullopt;
    ++hits_;
    return found;
  }

  [[nodiscard]] std::int64_t hits() const {
    const std::lock_guard lock(mutex_);
    return hits_;
  }

 private:
  void work() {
    omp_set_num_threads(1);  // of this thread's own parallel regions
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || busy_; });
      if (ended_) return;
      const Job job = *job_;
      lock.unlock();
      std::optional<Fetched> found;
      try {
        found = staging::fetch(job);
      } catch (...) {
        // Whatever it is happens again where it is fetched in vain, in the thread that trains.
      }
      lock.lock();
      fetched_ = std::move(found);
      busy_ = false;
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;
  std::optional<Fetched> fetched_;
  std::int64_t hits_ = 0;
  bool busy_ = false;
  bool ended_ = false;
  const pid_t owner_ = ::getpid();
  std::thread thread_;  // last: it uses the others
};

Prefetch::Prefetch() : worker_(std::make_unique<Worker>()) {}

/// In a forked child there is no thread to end, and the end of a condition variable would wait for it: all
/// that is kept.
Prefetch::~Prefetch() {
  if (worker_->is_of_parent()) static_cast<void>(worker_.release());
}

Samples Prefetch::take(const Batch& batch, std::int64_t first, std::int64_t count, std::int64_t next,
                       at::Device inputs, at::Device targets) {
  const bool has_thread = !worker_->is_of_parent();
  std::optional<Fetched> found = has_thread ? worker_->result(first, count) : std::nullopt;
  if (!found) found = staging::fetch({batch, first, count, inputs, targets});
#ifdef SPEEDTORCH_HAS_CUDA
  if (found->arrival) found->arrival->await(found->samples);
#endif
  if (has_thread && next > 0) worker_->begin({batch, first + count, next, inputs, targets});
  return std::move(found->samples);
}

void Prefetch::forget() {
  if (!worker_->is_of_parent()) worker_->result(-1, -1);
}

std::int64_t Prefetch::hits() const { return worker_->is_of_parent() ? 0 : worker_->hits(); }

}  // namespace speedtorch::infinity
