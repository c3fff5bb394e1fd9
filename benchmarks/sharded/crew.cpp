#include "benchmarks/sharded/crew.h"

#include <sched.h>

#include <algorithm>

namespace stbench {
namespace {

/// Gives up what an earlier case pinned: threads and processes that start now inherit it.
void run_on(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const auto cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

void Crew::join() {
  ranks_ = std::make_unique<Ranks>(timeout_);
  launched_ = true;
}

Ranks& Crew::of(int size) {
  if (launched_ || (ranks_ && !ranks_->lost() && ranks_->size() == size)) return *ranks_;
  ranks_.reset();
  run_on(cpus_);
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
