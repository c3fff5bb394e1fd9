/// A log of the writes to the rows that index sets name: which set wrote a row last.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "harness/sampler.h"

namespace stbench {

/// The rows that a method moves: those that the index names, or (a ceiling) the same number in one contiguous
/// piece.
enum class Pattern { indexed, contiguous };

using IndexSets = std::array<std::vector<std::int64_t>, harness::index_sets>;

/// It stores the named rows only, so its cost depends on the batches, not on the table (5 GB are 312 million
/// rows of 16 bytes; 16 sets of 131,072 name 2 million of them).
class WriteLog {
 public:
  WriteLog(std::shared_ptr<const IndexSets> indexed, std::shared_ptr<const IndexSets> contiguous)
      : sets_{std::move(indexed), std::move(contiguous)} {}

  /// Logs that the rows of this set were written with values of `generation`.
  void write(Pattern pattern, int set, std::uint64_t generation);
  /// True if a row may hold other values than the table's fill, which is generation 0.
  [[nodiscard]] bool fresh() const { return fresh_; }
  /// The generation of the last write to the row, 0 without one. Thread-safe after index() was called.
  [[nodiscard]] std::uint64_t generation_of(std::int64_t row) const;
  /// True if any written set names the row; likewise thread-safe.
  [[nodiscard]] bool is_written(std::int64_t row) const;
  /// All rows that were written, ascending, each once.
  [[nodiscard]] std::vector<std::int64_t> written_rows();
  /// Makes the lookup of rows, unless it exists.
  void index();
  void clear();

 private:
  /// A named row and the sets that name it, one bit each.
  struct Named {
    std::int64_t row;
    std::uint32_t sets;
  };
  struct Write {
    std::uint64_t generation = 0;
    std::uint64_t turn = 0;  ///< 0 if the set was not written
  };
  static constexpr std::size_t number(Pattern pattern, int set) {
    return static_cast<std::size_t>(set) +
           (pattern == Pattern::indexed ? 0U : std::size_t{harness::index_sets});
  }
  [[nodiscard]] const std::vector<std::int64_t>& rows_of(std::size_t number) const {
    return (*sets_[number / harness::index_sets])[number % harness::index_sets];
  }
  /// The latest write to a row; its turn is 0 if there was none.
  [[nodiscard]] Write last_write(std::int64_t row) const;

  static constexpr std::size_t count = 2 * std::size_t{harness::index_sets};
  std::array<std::shared_ptr<const IndexSets>, 2> sets_;
  std::array<Write, count> writes_{};
  std::vector<Named> named_;  ///< ascending by row
  std::uint64_t turns_ = 0;
  bool fresh_ = false;
};

}  // namespace stbench
