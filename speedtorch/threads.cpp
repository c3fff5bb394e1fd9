#include "speedtorch/threads.h"

#include <ATen/Parallel.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <system_error>
#include <utility>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/first_plan.h"
#include "speedtorch/kernels/rows/plan.h"

namespace speedtorch {
namespace {

/// Not that of system/affinity.h: files of system/ include this file's header, and no folder includes one
/// above it.
bool pin_this_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) == 0;
}

/// True in a child that a multi-threaded process forked. LibTorch's pool still counts the parent's threads
/// there and would wait for them for ever.
bool is_alone = false;
thread_local bool had_threads = false;  ///< when the fork that this thread is in began

/// LibTorch's threads look like any others, so any second thread counts. /proc/self/task has a link for each
/// thread and two of its own.
bool has_threads() {
  struct stat tasks {};
  return ::stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != 3;
}

void before_fork() { had_threads = has_threads(); }
void in_child() { is_alone = is_alone || had_threads; }

/// In the file from which each kernel's threads come, so that the linker keeps it.
[[maybe_unused]] const int noticed_by_fork = ::pthread_atfork(before_fork, nullptr, in_child);

/// Likewise: whoever moves rows takes their threads from this file.
[[maybe_unused]] const bool planned_by_host = (kernels::set_plan_source(first_host_plan), true);

std::vector<int>& pinned_by_thread() {
  static std::vector<int> cpus;
  return cpus;
}

std::string limit_on_processes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return std::to_string(limit.rlim_cur);
}

}  // namespace

std::span<const int> pinned_cpus() { return pinned_by_thread(); }

void parallel_for(std::int64_t n, std::int64_t grain, kernels::RangeBody body) {
  if (is_alone) return kernels::serial_for(n, grain, body);
  at::parallel_for(0, n, grain, [&](std::int64_t begin, std::int64_t end) { body(begin, end); });
}

int thread_count() { return is_alone ? 1 : at::get_num_threads(); }

void set_caller_threads(int count, std::span<const int> cpus) {
  if (is_alone) {
    if (!cpus.empty() && !pin_this_thread(cpus.front()))
      throw MemoryError("cannot pin a thread: the system refuses the affinity");
    return;
  }
  at::get_num_threads();  // must come first: a thread's first call copies the number that another thread set
                          // last
  at::set_num_threads(count);
  if (cpus.empty()) return;
  std::atomic<bool> pinned{true};
  at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto k = begin; k < end; ++k) {
      if (!pin_this_thread(cpus[static_cast<std::size_t>(at::get_thread_num()) % cpus.size()]))
        pinned = false;
    }
  });
  if (!pinned)
    throw MemoryError("cannot pin " + std::to_string(count) + " threads: the system refuses the affinity");
}

std::thread start_thread(const std::string& whose, std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    throw ThreadError("cannot start the thread of " + whose + ": " + error.code().message() +
                      "; the limit on processes (RLIMIT_NPROC, ulimit -u) is " + limit_on_processes() +
                      ", and the container's pids.max may be lower");
  }
}

void set_threads(int count, std::span<const int> cpus) {
  pinned_by_thread().clear();
  set_caller_threads(count, cpus);
  if (cpus.empty()) return;
  for (std::size_t k = 0; k < static_cast<std::size_t>(is_alone ? 1 : count); ++k) {
    pinned_by_thread().push_back(cpus[k % cpus.size()]);
  }
}

}  // namespace speedtorch
