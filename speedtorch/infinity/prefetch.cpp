#include "speedtorch/infinity/prefetch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <omp.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "speedtorch/tables/side_stream.h"
#include "speedtorch/threads.h"

namespace speedtorch::infinity {
namespace staging {

struct Job {
  Batch batch;
  std::int64_t first;
  std::int64_t count;
  at::Device inputs;
  at::Device targets;
  std::shared_ptr<SideStream> side =
      {};  ///< of a job for a GPU: the stream on which samples are made and copied
};

/// The GPUs that this process uses, and those of the job. The source of the samples is unknown.
std::vector<at::Device> gpus_in_use(const Job& job) {
  const auto& cuda = at::detail::getCUDAHooks();
  const at::Device current = c10::impl::VirtualGuardImpl(at::kCUDA).getDevice();
  std::vector<at::Device> gpus;
  for (c10::DeviceIndex number = 0; number < cuda.deviceCount(); ++number) {
    const at::Device gpu(at::kCUDA, number);
    if (cuda.hasPrimaryContext(number) || gpu == current || job.inputs == gpu || job.targets == gpu)
      gpus.push_back(gpu);
  }
  return gpus;
}

/// Called by the training thread. Its work queued so far comes before the samples, which may depend on it.
Job with_side_stream(Job job) {
  if (!job.inputs.is_cuda() && !job.targets.is_cuda()) return job;
  job.side = side_stream(gpus_in_use(job), 1);
  job.side->record_caller(0);
  return job;
}

/// Samples that are complete or still being copied.
struct Fetched {
  Samples samples;
  std::shared_ptr<SideStream> side = {};
};

/// Called by the training thread. Its work queued from now on comes after the samples.
void await(const Fetched& fetched) {
  if (!fetched.side) return;
  fetched.side->make_caller_wait(0);
  for (const Tensors* tensors : {&fetched.samples.inputs, &fetched.samples.targets})
    for (const at::Tensor& tensor : *tensors)
      if (tensor.is_cuda())
        tensor.record_stream(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(tensor.device()));
}

Tensors pinned(const Tensors& tensors) {
  Tensors found;
  for (const at::Tensor& tensor : tensors)
    found.push_back(tensor.is_cpu() && !tensor.is_pinned() ? tensor.pin_memory() : tensor);
  return found;
}

Fetched to_gpu(const Job& job) {
  Fetched fetched{.samples = {}, .side = job.side};
  job.side->run_after_caller(0, [&] {
    const Samples samples = job.batch.samples(job.first, job.count);
    fetched.samples = {on_device(pinned(samples.inputs), job.inputs),
                       on_device(pinned(samples.targets), job.targets)};
  });
  return fetched;
}

/// Always copies, on the host too: a view of a mapped file is read only when it is touched.
Fetched fetch(const Job& job) {
  const at::NoGradGuard no_grad;
  if (job.side) return to_gpu(job);
  const Samples samples = job.batch.samples(job.first, job.count);
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

  /// True in a forked child. No other function may be called there, because the mutex may be locked forever.
  [[nodiscard]] bool is_of_parent() const { return ::getpid() != owner_; }

  void begin(Job job) {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
    fetched_.reset();
    busy_ = true;
    changed_.notify_all();
  }

  /// Waits for the job and returns its samples. Empty if other samples were requested, or if it failed.
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
    omp_set_num_threads(1);  // for parallel regions of this thread
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
        // Ignored: the training thread fetches the samples again and gets the error.
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
  std::thread thread_;  // last, because it uses the other members
};

Prefetch::Prefetch() : worker_(std::make_unique<Worker>()) {}

/// In a forked child there is no thread to join, and the destructor of a condition variable would wait for
/// it. So the worker is leaked there.
Prefetch::~Prefetch() {
  if (worker_->is_of_parent()) static_cast<void>(worker_.release());
}

Samples Prefetch::take(const Batch& batch, std::int64_t first, std::int64_t count, std::int64_t next,
                       at::Device inputs, at::Device targets) {
  const bool has_thread = !worker_->is_of_parent();
  std::optional<Fetched> found = has_thread ? worker_->result(first, count) : std::nullopt;
  if (!found) found = staging::fetch(staging::with_side_stream({batch, first, count, inputs, targets}));
  staging::await(*found);
  if (has_thread && next > 0)
    worker_->begin(staging::with_side_stream({batch, first + count, next, inputs, targets}));
  return std::move(found->samples);
}

void Prefetch::discard() {
  if (!worker_->is_of_parent()) worker_->result(-1, -1);
}

std::int64_t Prefetch::hits() const { return worker_->is_of_parent() ? 0 : worker_->hits(); }

}  // namespace speedtorch::infinity
