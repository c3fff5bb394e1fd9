#include "benchmarks/suite/cache_bytes.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/option_spec.h"
#include "harness/errors.h"
#include "harness/numbers.h"

namespace stbench {
namespace {

constexpr const char* cache_bytes_name = "--cache-bytes";
constexpr std::int64_t part_of_table = 50, fewest_rows = 64;
constexpr std::int64_t bookkeeping = 11;  ///< bytes for each row

const RegisterOption registration{
    "--cache-bytes LIST",
    "memory of methods that keep rows of a file (2 % of the table)",
    option_reader::own,
    {},
    "Bytes for the rows that row_cache keeps, and its bookkeeping. Other methods keep no rows."};

}  // namespace

std::vector<std::int64_t> cache_bytes_of(const Options& options, std::int64_t rows, std::int64_t row_bytes) {
  const auto given = options.own.find(cache_bytes_name);
  if (given == options.own.end())
    return {std::max(rows / part_of_table, fewest_rows) * (row_bytes + bookkeeping)};
  std::vector<std::int64_t> sizes;
  for (const auto& text : given->second) {
    add_once(sizes, harness::parse_count(text, cache_bytes_name));
    require_positive({{cache_bytes_name, sizes.back()}});
  }
  return sizes;
}

bool asks_for_cache(const Options& options) { return options.own.contains(cache_bytes_name); }

void require_cache_used(const Options& options, bool used) {
  if (asks_for_cache(options) && !used)
    throw UsageError(
        "--cache-bytes: no case keeps rows of a file; row_cache does, with --placement mapped and --device "
        "cpu");
}

void set_cache_bytes(Options& options, std::int64_t bytes) {
  options.own[cache_bytes_name] = {std::to_string(bytes)};
}

void fill_until_settled(const std::function<double()>& look_up) {
  constexpr std::size_t fewest = 6, back = 4;
  constexpr double settled = 0.005, most_seconds = 8;
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  std::vector<double> rates;
  const auto grows = [&] {
    return rates.size() < fewest || rates.back() - rates.at(rates.size() - 1 - back) > settled;
  };
  while (grows() && seconds() < most_seconds) rates.push_back(look_up());
}

}  // namespace stbench
