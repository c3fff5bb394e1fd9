/// The threads that row movement runs on: LibTorch's own pool, so that one program has one pool.
///
/// A child that was forked from a process of several threads has only the one that forked. There this
/// library's host kernels run on the calling thread, and the functions below know of one thread. LibTorch's
/// own operations wait there for threads that are gone: call at::set_num_threads(1) first in such a child.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <thread>

#include "speedtorch/kernels/parallel.h"

namespace speedtorch {

/// Binds `at::parallel_for`: a kernels::ParallelFor. What `body` throws is thrown.
void parallel_for(std::int64_t n, std::int64_t grain, kernels::RangeBody body);

/// How many threads parallel_for has at most.
int thread_count();

/// Uses `count` threads of LibTorch's pool from now on and pins thread k to cpus[k % cpus.size()]; an empty
/// list pins nothing. Not while a movement runs: it reads the list. @throws MemoryError where the system
/// refuses an affinity.
void set_threads(int count, std::span<const int> cpus);

/// The same for what the calling thread starts, of several threads that call at once: each has a pool of its
/// own. Nobody else's threads nor pinned_cpus() change. @throws MemoryError likewise.
void set_caller_threads(int count, std::span<const int> cpus);

/// The CPU that each thread of the pool was pinned to by the last set_threads; empty where it pinned nothing.
/// The next set_threads, which is not to be called while a movement runs, rewrites what is returned.
std::span<const int> pinned_cpus();

/// A thread of its own, beside the pool.
/// @param whose what the thread is for, as in "a Prefetcher"
/// @throws ThreadError where the system starts none
std::thread start_thread(const std::string& whose, std::function<void()> work);

}  // namespace speedtorch
