/// The tests' ParallelFor: std::thread only, so that ThreadSanitizer sees all of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "speedtorch/kernels/parallel.h"

namespace speedtorch::kernels {

/// Splits a loop evenly over `threads` threads including the caller's, each with at least `grain` items.
class ThreadPool {
 public:
  explicit ThreadPool(std::int64_t threads) : threads_(threads) {}

  void operator()(std::int64_t n, std::int64_t grain, RangeBody body) const {
    const std::int64_t share = std::max({grain, (n + threads_ - 1) / threads_, std::int64_t{1}});
    std::vector<std::thread> others;
    for (std::int64_t begin = share; begin < n; begin += share) {
      others.emplace_back([=] { body(begin, std::min(begin + share, n)); });
    }
    if (n > 0) body(0, std::min(share, n));
    for (std::thread& other : others) other.join();
  }

 private:
  std::int64_t threads_;
};

}  // namespace speedtorch::kernels
