/// Several threads that call at once, as loaders do: each waits at a barrier, does its own work, and the time
/// of a round is that from the first one's start to the last one's end.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace stbench {

/// The cores of caller `caller` of so many: together they have all of `cpus`, in turn where there are fewer
/// cores than callers.
std::vector<int> cpus_of_caller(std::span<const int> cpus, int callers, int caller);

class CallerThreads {
 public:
  /// Starts `count` threads, each with a part of the cores. What LibTorch and our kernels do inside one runs
  /// on as many threads as it has cores, so all callers together have those of a case with one caller.
  /// @param cpus the cell's cores; empty: nothing is pinned, and each caller has one thread
  /// @throws std::system_error where the system has no more threads
  CallerThreads(int count, std::vector<int> cpus);
  ~CallerThreads();
  CallerThreads(const CallerThreads&) = delete;

  /// Every caller does work(caller, round) for each round from 0 on, all of them starting a round together.
  /// Returns the seconds of all rounds. @throws the first exception of any of them; its caller does nothing
  /// more.
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
