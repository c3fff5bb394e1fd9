#include "speedtorch/files/cache_prefetch.h"

#include <ATen/core/grad_mode.h>

#include <string>

#include "speedtorch/error.h"

namespace speedtorch {

void CachePrefetch::start(const at::Tensor& index) {
  if (::getpid() != owner_)
    throw OrderError("this RowCache belongs to process " + std::to_string(owner_) + ", and process " +
                     std::to_string(::getpid()) + " was forked from it; make one there");
  auto batch = std::make_shared<PrefetchedRows>();
  batch->index = index.clone();
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = start_thread("a RowCache's prefetch", [this] { serve(); });
    batches_[std::this_thread::get_id()] = batch;
    queue_.push_back(std::move(batch));
  }
  changed_.notify_all();
}

std::shared_ptr<PrefetchedRows> CachePrefetch::take() {
  const std::lock_guard lock(mutex_);
  if (batches_.empty()) return nullptr;
  const auto found = batches_.find(std::this_thread::get_id());
  if (found == batches_.end()) return nullptr;
  auto batch = std::move(found->second);
  batches_.erase(found);
  return batch;
}

void CachePrefetch::await(const PrefetchedRows& batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return batch.done; });
  if (batch.failed) std::rethrow_exception(batch.failed);
}

void CachePrefetch::serve() {
  const at::NoGradGuard unrecorded;
  try {  // the thread inherits its creator's affinity, which may be one CPU
    if (!cpus_.empty()) set_caller_threads(static_cast<int>(cpus_.size()), cpus_);
  } catch (const MemoryError&) {  // then it is slower
  }
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !queue_.empty(); });
    if (ends_) return;
    const auto batch = std::move(queue_.front());
    queue_.pop_front();
    if (batch.use_count() == 1) continue;  // no thread waits for it any more
    lock.unlock();
    try {
      read_(*batch);
    } catch (...) {
      batch->failed = std::current_exception();
    }
    lock.lock();
    batch->done = true;
    changed_.notify_all();
  }
}

bool CachePrefetch::stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  const bool owned = ::getpid() == owner_;
  if (thread_.joinable()) owned ? thread_.join() : thread_.detach();
  return owned;
}

}  // namespace speedtorch
