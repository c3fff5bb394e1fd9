/// The threads that move rows: LibTorch's own pool, so that a program has one pool.
///
/// A child that a multi-threaded process forks has only the thread that forked. There the library's host
/// kernels run on the calling thread, and the functions below know of one thread. LibTorch's own operations
/// hang in such a child unless it calls at::set_num_threads(1) first.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <thread>

#include "speedtorch/kernels/parallel.h"

namespace speedtorch {

/// A kernels::ParallelFor over `at::parallel_for`. Rethrows what `body` throws.
void parallel_for(std::int64_t n, std::int64_t grain, kernels::RangeBody body);

/// The number of threads that parallel_for uses at most.
int thread_count();

/// Uses `count` threads of LibTorch's pool from now on and pins thread k to cpus[k % cpus.size()]. An empty
/// list pins nothing. Do not call it while rows move, because the movement reads the list.
/// @throws MemoryError if the system refuses an affinity
void set_threads(int count, std::span<const int> cpus);

/// Does the same for the calling thread's own pool, where several threads call at once. It changes neither
/// other threads' pools nor pinned_cpus(). @throws MemoryError likewise
void set_caller_threads(int count, std::span<const int> cpus);

/// The CPU of each thread of the pool, as the last set_threads() pinned it; empty if it pinned nothing. The
/// next set_threads() overwrites the list, so do not call it while rows move.
std::span<const int> pinned_cpus();

/// Starts a thread beside the pool.
/// @param whose the thread's purpose, as in "a Prefetcher"
/// @throws ThreadError if the system does not start it
std::thread start_thread(const std::string& whose, std::function<void()> work);

}  // namespace speedtorch
