// A least-significant-digit radix sort over chunks: each pass counts a chunk's digits, adds the counts up in
// the order (digit, chunk), and moves the records, so that it is stable and every chunk can be another
// thread's. Then the chunks count the places where a new row begins, and list them.

#include "speedtorch/kernels/rows/duplicate_rows.h"

#include <algorithm>
#include <bit>

#include "speedtorch/kernels/rows/rows.h"

namespace speedtorch::kernels {
namespace {

/// 2048 counters of 8 bytes are a third of the first-level cache; 21 bits, 2M rows, are two passes.
constexpr int kDigitBits = 11;

/// Below it a comparison sort is quicker than clearing and adding up the counters.
constexpr std::int64_t kFewIndices = 1024;

/// Indices of a chunk at least, and chunks at most: the counters of all are added up by one thread.
constexpr std::int64_t kChunk = 8192;
constexpr std::int64_t kMostChunks = 64;

int bits_of(std::int64_t values) {
  return values > 1 ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(values - 1))) : 1;
}

/// An even division of [0, count), which depends on the count alone.
struct Chunks {
  std::int64_t count;
  std::int64_t chunks;

  explicit Chunks(std::int64_t n) : count(n), chunks(std::clamp<std::int64_t>(n / kChunk, 1, kMostChunks)) {}

  std::int64_t begin(std::int64_t chunk) const {
    return count / chunks * chunk + std::min(chunk, count % chunks);
  }

  /// body(chunk, begin, end) for each.
  template <class Body>
  void each(ParallelFor parallel_for, Body body) const {
    const auto some = [&](std::int64_t from, std::int64_t to) {
      for (auto chunk = from; chunk < to; ++chunk) body(chunk, begin(chunk), begin(chunk + 1));
    };
    if (chunks == 1) return some(0, 1);
    parallel_for(chunks, 1, some);
  }
};

struct WordKeys {
  int position_bits;

  std::uint64_t make(std::uint64_t row, std::uint64_t position) const {
    return row << position_bits | position;
  }
  std::uint64_t row(std::uint64_t word) const { return word >> position_bits; }
  std::uint64_t position(std::uint64_t word) const {
    return word & ((std::uint64_t{1} << position_bits) - 1);
  }
};

struct PairKeys {
  template <class Pair>
  std::uint64_t row(const Pair& pair) const {
    return pair.row;
  }
  template <class Pair>
  std::uint64_t position(const Pair& pair) const {
    return pair.position;
  }
};

template <class T>
void grow(std::vector<T>& values, std::int64_t count) {
  if (static_cast<std::int64_t>(values.size()) < count) values.resize(static_cast<std::size_t>(count));
}

}  // namespace

template <IndexType Index>
void DuplicateRows::find(const Index* index, std::int64_t count, std::int64_t rows,
                         ParallelFor parallel_for) {
  check_indices(index, count, rows, kChunk, parallel_for);
  grow(rows_, count);
  grow(begins_, count + 1);
  grow(positions_, count);
  count_ = count;
  const int row_bits = bits_of(rows);
  if (row_bits + bits_of(count) <= 64) {
    find_by(WordKeys{bits_of(count)}, index, words_, row_bits, parallel_for);
  } else {
    find_by(PairKeys{}, index, pairs_, row_bits, parallel_for);
  }
}

template <class Keys, class Index, class Record>
void DuplicateRows::find_by(Keys keys, const Index* index, Records<Record>& records, int row_bits,
                            ParallelFor parallel_for) {
  grow(records.sorted, count_);
  grow(records.spare, count_);
  Chunks(count_).each(parallel_for, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto row = static_cast<std::uint64_t>(index[i]);
      const auto position = static_cast<std::uint64_t>(i);
      auto& record = records.sorted[static_cast<std::size_t>(i)];
      if constexpr (std::is_same_v<Record, Pair>)
        record = {row, position};
      else
        record = keys.make(row, position);
    }
  });
  sort(keys, records, row_bits, parallel_for);
  list(keys, records.sorted.data(), parallel_for);
}

template <class Keys, class Record>
void DuplicateRows::sort(Keys keys, Records<Record>& records, int row_bits, ParallelFor parallel_for) {
  if (count_ <= kFewIndices) {
    std::sort(records.sorted.begin(), records.sorted.begin() + count_, [keys](const auto& a, const auto& b) {
      return keys.row(a) != keys.row(b) ? keys.row(a) < keys.row(b) : keys.position(a) < keys.position(b);
    });
    return;
  }
  const int passes = (row_bits + kDigitBits - 1) / kDigitBits;
  const int bits = (row_bits + passes - 1) / passes;
  for (int k = 0; k < passes; ++k) {
    pass(keys, records.sorted.data(), records.spare.data(), k * bits, bits, parallel_for);
    records.sorted.swap(records.spare);
  }
}

template <class Keys, class Record>
void DuplicateRows::pass(Keys keys, const Record* from, Record* to, int shift, int bits,
                         ParallelFor parallel_for) {
  const Chunks chunks(count_);
  const std::int64_t digits = std::int64_t{1} << bits;
  const auto mask = static_cast<std::uint64_t>(digits - 1);
  grow(counters_, chunks.chunks * digits);
  std::int64_t* const counters = counters_.data();
  chunks.each(parallel_for, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    std::int64_t* const own = counters + chunk * digits;
    std::fill(own, own + digits, 0);
    for (auto i = begin; i < end; ++i) ++own[keys.row(from[i]) >> shift & mask];
  });
  std::int64_t total = 0;
  for (std::int64_t digit = 0; digit < digits; ++digit) {
    for (std::int64_t chunk = 0; chunk < chunks.chunks; ++chunk) {
      std::int64_t& counter = counters[chunk * digits + digit];
      total += std::exchange(counter, total);
    }
  }
  chunks.each(parallel_for, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    std::int64_t* const own = counters + chunk * digits;
    for (auto i = begin; i < end; ++i) to[own[keys.row(from[i]) >> shift & mask]++] = from[i];
  });
}

template <class Keys, class Record>
void DuplicateRows::list(Keys keys, const Record* sorted, ParallelFor parallel_for) {
  const auto begins_row = [&](std::int64_t i) {
    return i == 0 || keys.row(sorted[i]) != keys.row(sorted[i - 1]);
  };
  const Chunks chunks(count_);
  grow(counters_, chunks.chunks);
  chunks.each(parallel_for, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    std::int64_t found = 0;
    for (auto i = begin; i < end; ++i) found += begins_row(i) ? 1 : 0;
    counters_[static_cast<std::size_t>(chunk)] = found;
  });
  unique_ = 0;
  for (std::int64_t chunk = 0; chunk < chunks.chunks; ++chunk)
    unique_ += std::exchange(counters_[static_cast<std::size_t>(chunk)], unique_);
  chunks.each(parallel_for, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    auto k = static_cast<std::size_t>(counters_[static_cast<std::size_t>(chunk)]);
    for (auto i = begin; i < end; ++i) {
      positions_[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(keys.position(sorted[i]));
      if (!begins_row(i)) continue;
      rows_[k] = static_cast<std::int64_t>(keys.row(sorted[i]));
      begins_[k++] = i;
    }
  });
  begins_[static_cast<std::size_t>(unique_)] = count_;
}

template void DuplicateRows::find(const std::int32_t*, std::int64_t, std::int64_t, ParallelFor);
template void DuplicateRows::find(const std::int64_t*, std::int64_t, std::int64_t, ParallelFor);

}  // namespace speedtorch::kernels
