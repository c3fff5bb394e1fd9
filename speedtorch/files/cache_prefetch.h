/// Reads rows on its own thread before a RowCache looks them up. For the library's own files.
#pragma once

#include <ATen/core/Tensor.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "speedtorch/files/cache_misses.h"
#include "speedtorch/threads.h"

namespace speedtorch {

/// Rows read before they are looked up.
struct PrefetchedRows {
  std::vector<MissedRow> rows;  ///< ascending
  at::Tensor index;             ///< until it is read
  at::Tensor bytes;
  std::exception_ptr failed;
  bool done = false;
};

/// Thread-safe. Each calling thread has at most one batch.
class CachePrefetch {
 public:
  /// @param read fills `rows` and `bytes` of a batch; runs on the thread
  explicit CachePrefetch(std::function<void(PrefetchedRows&)> read) : read_(std::move(read)) {}
  ~CachePrefetch() { stop(); }
  CachePrefetch(const CachePrefetch&) = delete;
  CachePrefetch& operator=(const CachePrefetch&) = delete;

  /// Starts to read. Replaces the calling thread's former batch. @throws ThreadError; OrderError in a child
  void start(const at::Tensor& index);
  /// The calling thread's batch, or null.
  [[nodiscard]] std::shared_ptr<PrefetchedRows> take();
  /// Waits until a batch is read. @throws what reading threw
  void await(const PrefetchedRows& batch);
  /// Ends the thread. Returns false in a forked child, in which the thread is the parent's.
  bool stop();

 private:
  void serve();

  std::function<void(PrefetchedRows&)> read_;
  std::mutex mutex_;  ///< guards the members below and `done` of each batch
  std::condition_variable changed_;
  std::map<std::thread::id, std::shared_ptr<PrefetchedRows>> batches_;  ///< by the thread that asked for it
  std::deque<std::shared_ptr<PrefetchedRows>> queue_;
  bool ends_ = false;
  std::vector<int> cpus_{pinned_cpus().begin(), pinned_cpus().end()};
  const pid_t owner_ = ::getpid();
  std::thread thread_;
};

}  // namespace speedtorch
