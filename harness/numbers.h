/// Numbers as people write them on a command line, and as they read them in a table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stbench::harness {

/// A whole number, zero or more, with k M G = 10^3 10^6 10^9 or Ki Mi Gi = 2^10 2^20 2^30 behind it.
/// @param option names the number in messages, e.g. "--rows"
/// @throws UsageError for any other text and if the number does not fit 63 bits.
std::int64_t parse_count(std::string_view text, std::string_view option);

/// A comma list of numbers and ranges, each value once, in the order given. `1k:1M:x4` multiplies (1k, 4k, …)
/// and `1k:5k:+1k` adds as long as the upper end is not passed.
/// @throws UsageError for any other text, and for a range of more than 1000 values.
std::vector<std::int64_t> parse_counts(std::string_view text, std::string_view option);

/// A time in seconds: `1.5`, or with a unit `250us`, `20ms`, `3s`, `2min`, `1h`.
/// @throws UsageError for any other text, negative and infinite ones included.
double parse_seconds(std::string_view text, std::string_view option);

/// With thousands separators: 1,000,000.
std::string human(std::int64_t number);

/// Three figures and an SI unit: 512 B, 67.1 MB, 5.12 GB.
std::string human_bytes(std::int64_t bytes);

/// With a suffix if nothing is lost by it (10M, 128, 131072): what parse_count reads back.
std::string short_count(std::int64_t number);

}  // namespace stbench::harness
