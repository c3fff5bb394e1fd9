#include "benchmarks/transfer/reading_pass.h"

#include <ATen/Parallel.h>

#include <atomic>

#include "speedtorch/rows/word_sum.h"

namespace stbench {
namespace {

constexpr std::int64_t kWord = sizeof(std::uint64_t);
/// Words for which a second thread is woken: LibTorch's own sums wake one for 32,768 float32 numbers.
constexpr std::int64_t kGrain = 16384;

}  // namespace

std::uint64_t sum_of_words(const at::Tensor& rows) {
  const auto* from = static_cast<const std::byte*>(rows.const_data_ptr());
  const auto bytes = static_cast<std::int64_t>(rows.nbytes());
  const auto words = bytes / kWord;
  std::atomic<std::uint64_t> sum{speedtorch::word_sum(from + words * kWord, bytes % kWord)};
  at::parallel_for(0, words, kGrain, [&](std::int64_t begin, std::int64_t end) {
    sum.fetch_add(speedtorch::word_sum(from + begin * kWord, (end - begin) * kWord),
                  std::memory_order_relaxed);
  });
  return sum;
}

std::uint64_t plain_sum_of_words(const at::Tensor& rows) {
  const auto* from = static_cast<const std::byte*>(rows.const_data_ptr());
  const auto bytes = static_cast<std::int64_t>(rows.nbytes());
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < bytes; ++i) {
    const bool whole = i / kWord < bytes / kWord;
    sum += static_cast<std::uint64_t>(from[i]) << (whole ? 8 * (i % kWord) : 0);
  }
  return sum;
}

}  // namespace stbench
