/// The distinct rows that an index names, and where it names each: what must be known before copies of a row
/// may be summed, or one row be updated once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "speedtorch/kernels/index_type.h"
#include "speedtorch/kernels/parallel.h"

namespace speedtorch::kernels {

/// Found by a radix sort of (row, position) that keeps the order of positions; what is found does not depend
/// on the number of threads. The memory is kept from one index to the next: once it has seen an index as long
/// as this one, find() allocates nothing. Takes some 32 bytes per index.
class DuplicateRows {
 public:
  /// Forgets what was found before. @throws IndexError, and keeps what was found before, where an index names
  /// none of `rows` rows.
  template <IndexType Index>
  void find(const Index* index, std::int64_t count, std::int64_t rows, ParallelFor parallel_for);

  /// How many rows are named.
  [[nodiscard]] std::int64_t unique() const { return unique_; }
  /// Them, ascending.
  [[nodiscard]] std::span<const std::int64_t> rows() const { return first(rows_, unique_); }
  /// Row k is named at positions()[begins()[k]] to positions()[begins()[k + 1] - 1], ascending.
  [[nodiscard]] std::span<const std::int64_t> begins() const { return first(begins_, unique_ + 1); }
  /// Each of [0, count) once.
  [[nodiscard]] std::span<const std::int64_t> positions() const { return first(positions_, count_); }

 private:
  /// An index with its position: both in one word if they fit, as nearly always.
  struct Pair {
    std::uint64_t row;
    std::uint64_t position;
  };
  template <class Record>
  struct Records {
    std::vector<Record> sorted;
    std::vector<Record> spare;
  };

  template <class Keys, class Index, class Record>
  void find_by(Keys keys, const Index* index, Records<Record>& records, int row_bits,
               ParallelFor parallel_for);
  template <class Keys, class Record>
  void sort(Keys keys, Records<Record>& records, int row_bits, ParallelFor parallel_for);
  template <class Keys, class Record>
  void pass(Keys keys, const Record* from, Record* to, int shift, int bits, ParallelFor parallel_for);
  template <class Keys, class Record>
  void list(Keys keys, const Record* sorted, ParallelFor parallel_for);

  static std::span<const std::int64_t> first(const std::vector<std::int64_t>& values, std::int64_t count) {
    return std::span(values).first(static_cast<std::size_t>(count));
  }

  std::int64_t count_ = 0;
  std::int64_t unique_ = 0;
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> begins_ = {0};
  std::vector<std::int64_t> positions_;
  std::vector<std::int64_t> counters_;
  Records<std::uint64_t> words_;
  Records<Pair> pairs_;
};

}  // namespace speedtorch::kernels
