/// Runs, poisons and checks one case of the transfer suite.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "benchmarks/transfer/caller_threads.h"
#include "benchmarks/transfer/cold.h"
#include "benchmarks/transfer/fixture.h"
#include "benchmarks/transfer/transfer_case.h"
#include "harness/benchmark_case.h"

namespace stbench {

/// Draws a set of the case's distribution, by its number.
using DrawSet = std::function<std::vector<std::int64_t>(int set)>;

/// The case for the sampler.
/// @param threads of concurrent callers; null for one caller
/// @param cold makes its caches cold before each sample; null for a warm case
/// @param host_cache_bytes of the processor's last level
/// @param draw for methods that keep rows
harness::BenchmarkCase runnable_case(const TransferCase& one, const std::shared_ptr<TransferFixture>& fixture,
                                     const std::shared_ptr<CallerThreads>& threads,
                                     const std::shared_ptr<Cold>& cold, std::int64_t host_cache_bytes,
                                     const DrawSet& draw);

}  // namespace stbench
