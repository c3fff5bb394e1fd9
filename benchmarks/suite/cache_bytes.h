/// `--cache-bytes`: the memory of methods that keep rows of a file (RowCache).
#pragma once

#include <cstdint>
#include <vector>

#include "benchmarks/suite/options.h"

namespace stbench {

/// The sizes that were asked for, else a fiftieth of the table, or what a few rows take.
/// @throws UsageError for a size that is not above 0
std::vector<std::int64_t> cache_bytes_of(const Options& options, std::int64_t rows, std::int64_t row_bytes);

/// True if the option is given, which asks for the methods that keep rows, too.
bool asks_for_cache(const Options& options);
/// @throws UsageError if the option is given and none of the planned cases has such a method
void require_cache_used(const Options& options, bool used);

/// Asks for one size.
void set_cache_bytes(Options& options, std::int64_t bytes);

}  // namespace stbench
