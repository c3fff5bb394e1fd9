#include "benchmarks/sharded/crew.h"

#include <algorithm>

#include "speedtorch/system/affinity.h"

namespace stbench {

void Crew::join() {
  ranks_ = std::make_unique<Ranks>(timeout_);
  launched_ = true;
}

Ranks& Crew::of(int size) {
  if (launched_ || (ranks_ && !ranks_->lost() && ranks_->size() == size)) return *ranks_;
  ranks_.reset();
  speedtorch::pin_this_thread(cpus_);  // gives up what an earlier case pinned
  ranks_ = std::make_unique<Ranks>(size, timeout_);
  return *ranks_;
}

std::vector<std::vector<int>> Crew::cpus_of_ranks(int ranks, int cores) const {
  std::vector<std::vector<int>> all(static_cast<std::size_t>(ranks));
  if (launched_ || std::int64_t{ranks} * cores > std::ssize(cpus_)) return all;
  auto next = cpus_.begin();
  for (auto& cpus : all) {
    cpus.assign(next, next + cores);
    next += cores;
  }
  return all;
}

}  // namespace stbench
