#include "benchmarks/transfer/caller_threads.h"

#include <algorithm>
#include <barrier>
#include <chrono>

#include "speedtorch/threads.h"

namespace stbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t cache_line = 64;

}  // namespace

std::vector<int> cpus_of_caller(std::span<const int> cpus, int callers, int caller) {
  const auto cores = static_cast<int>(cpus.size());
  if (cores == 0) return {};
  if (callers >= cores) return {cpus[static_cast<std::size_t>(caller % cores)]};
  const auto first = cpus.begin() + std::ptrdiff_t{caller} * cores / callers;
  return {first, cpus.begin() + std::ptrdiff_t{caller + 1} * cores / callers};
}

/// One call of run(), which all callers do together.
struct CallerThreads::Job {
  /// When a caller began and ended the round, on its own cache line.
  struct alignas(cache_line) Turn {
    Clock::time_point begin, end;
  };
  /// Called by the last to arrive, before any continues: adds the round that has just ended.
  struct Tally {
    Job* job;
    void operator()() noexcept { job->tally(); }
  };

  Job(int callers, int rounds_, const std::function<void(int, int)>& work_)
      : rounds(rounds_),
        work(work_),
        turns(static_cast<std::size_t>(callers)),
        barrier(callers, Tally{this}) {}

  void tally() noexcept {
    if (began) {
      const auto first = std::ranges::min_element(turns, {}, &Turn::begin)->begin;
      total += std::ranges::max_element(turns, {}, &Turn::end)->end - first;
    }
    began = true;
  }

  void take_part(int caller) {
    auto& turn = turns[static_cast<std::size_t>(caller)];
    bool well = true;
    for (int round = 0; round < rounds; ++round) {
      barrier.arrive_and_wait();
      turn.begin = Clock::now();
      try {
        if (well) work(caller, round);
      } catch (...) {
        well = false;  // the others still wait for it at the barrier
        const std::lock_guard guard(mutex);
        if (!error) error = std::current_exception();
      }
      turn.end = Clock::now();
    }
    barrier.arrive_and_wait();
  }

  int rounds;
  const std::function<void(int, int)>& work;
  std::vector<Turn> turns;
  bool began = false;
  Clock::duration total{};
  std::mutex mutex;  ///< of the next
  std::exception_ptr error;
  std::size_t done = 0;  ///< callers; of the CallerThreads' own mutex
  std::barrier<Tally> barrier;
};

CallerThreads::CallerThreads(int count, std::vector<int> cpus) : count_(count), cpus_(std::move(cpus)) {
  try {
    for (int caller = 0; caller < count; ++caller) threads_.emplace_back([this, caller] { serve(caller); });
  } catch (...) {
    end();  // no more threads; ends those that exist
    throw;
  }
}

CallerThreads::~CallerThreads() { end(); }

void CallerThreads::end() {
  const std::lock_guard guard(mutex_);
  ended_ = true;
  asked_.notify_all();
}

void CallerThreads::serve(int caller) {
  std::exception_ptr no_cores;
  try {
    const auto cpus = cpus_of_caller(cpus_, count_, caller);
    speedtorch::set_caller_threads(std::max(1, static_cast<int>(cpus.size())), cpus);
  } catch (...) {
    no_cores = std::current_exception();
  }
  std::shared_ptr<Job> job;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      asked_.wait(lock, [&] { return ended_ || job_ != job; });
      if (ended_) return;
      job = job_;
    }
    if (no_cores) {
      const std::lock_guard guard(job->mutex);
      job->error = no_cores;
    }
    job->take_part(caller);
    const std::lock_guard guard(mutex_);
    ++job->done;
    answered_.notify_one();
  }
}

double CallerThreads::run(int rounds, const std::function<void(int caller, int round)>& work) {
  const auto job = std::make_shared<Job>(count_, rounds, work);
  {
    std::unique_lock lock(mutex_);
    job_ = job;
    asked_.notify_all();
    answered_.wait(lock, [&] { return job->done == threads_.size(); });
  }
  if (job->error) std::rethrow_exception(job->error);
  return std::chrono::duration<double>(job->total).count();
}

}  // namespace stbench
