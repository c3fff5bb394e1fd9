/// `--cache-bytes`: the memory of methods that keep rows of a file (RowCache).
#pragma once

#include <cstdint>
#include <functional>
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

/// Rows that fill a cache are looked up so many at a time: more are read from the disk in larger pieces.
constexpr std::int64_t most_rows_at_once = std::int64_t{1} << 18;

/// Fills a cache: looks up rows until the share of hits no longer grows, for 8 seconds at most.
/// @param look_up returns that share, of its own look-ups
void fill_until_settled(const std::function<double()>& look_up);

}  // namespace stbench
