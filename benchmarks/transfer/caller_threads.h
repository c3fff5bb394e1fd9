/// Concurrent callers, such as loader threads: each waits at a barrier and does its own work. The time of a
/// round is from the first start to the last end.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace stbench {

/// The cores of one of several callers. Together they have all of `cpus`; with fewer cores than callers they
/// share in turn.
std::vector<int> cpus_of_caller(std::span<const int> cpus, int callers, int caller);

class CallerThreads {
 public:
  /// Starts `count` threads, each with a part of the cores. LibTorch and our kernels run on as many threads
  /// in each as it has cores, so that all callers together use the cores of a case with one caller.
  /// @param cpus the cell's cores; empty: no affinity, and one thread per caller
  /// @throws std::system_error if the system has no more threads
  CallerThreads(int count, std::vector<int> cpus);
  ~CallerThreads();
  CallerThreads(const CallerThreads&) = delete;

  /// Every caller does work(caller, round) for each round from 0 on. All start a round together. Returns the
  /// seconds of all rounds. @throws the first exception of a caller, which does no further round.
  double run(int rounds, const std::function<void(int caller, int round)>& work);

  [[nodiscard]] int count() const { return count_; }

 private:
  struct Job;
  void serve(int caller);
  void end();

  int count_;
  std::vector<int> cpus_;
  std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::shared_ptr<Job> job_;  ///< the latest; each caller does it once
  bool ended_ = false;
  std::vector<std::jthread> threads_;  ///< the last, so the first to go
};

}  // namespace stbench
