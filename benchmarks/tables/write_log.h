/// Which rows of a table the index sets of a cell name, and which set wrote a row last.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "harness/sampler.h"

namespace stbench {

/// Which rows a method moves: the ones the index names, or (a ceiling) the same number in one contiguous
/// piece.
enum class Pattern { indexed, contiguous };

using IndexSets = std::array<std::vector<std::int64_t>, harness::index_sets>;

/// Knows of the named rows only, so its cost is that of the batches, not of the table: a table of 5 GB has
/// 312 million rows of 16 bytes, of which 16 sets of 131,072 name 2 million.
class WriteLog {
 public:
  WriteLog(std::shared_ptr<const IndexSets> indexed, std::shared_ptr<const IndexSets> contiguous)
      : sets_{std::move(indexed), std::move(contiguous)} {}

  /// The rows of this set were written with the values of `generation`.
  void write(Pattern pattern, int set, std::uint64_t generation);
  /// True where a row may hold other values than the table's own fill, which is generation 0.
  [[nodiscard]] bool fresh() const { return fresh_; }
  /// The generation of the last write to the row, 0 where there was none. Several threads may ask at once
  /// after index() was called.
  [[nodiscard]] std::uint64_t generation_of(std::int64_t row) const;
  /// Whether any set that was written names the row; likewise.
  [[nodiscard]] bool is_written(std::int64_t row) const;
  /// All rows that were written, ascending, each once.
  [[nodiscard]] std::vector<std::int64_t> written_rows();
  /// Makes the lookup of rows, where it is not made yet.
  void index();
  void clear();

 private:
  /// A named row and the sets that name it, a bit each.
  struct Named {
    std::int64_t row;
    std::uint32_t sets;
  };
  struct Write {
    std::uint64_t generation = 0;
    std::uint64_t turn = 0;  ///< 0 where the set was not written
  };
  static constexpr std::size_t number(Pattern pattern, int set) {
    return static_cast<std::size_t>(set) +
           (pattern == Pattern::indexed ? 0U : std::size_t{harness::index_sets});
  }
  [[nodiscard]] const std::vector<std::int64_t>& rows_of(std::size_t number) const {
    return (*sets_[number / harness::index_sets])[number % harness::index_sets];
  }
  /// The latest of the writes to a row; nothing was written where its turn is 0.
  [[nodiscard]] Write last_write(std::int64_t row) const;

  static constexpr std::size_t count = 2 * std::size_t{harness::index_sets};
  std::array<std::shared_ptr<const IndexSets>, 2> sets_;
  std::array<Write, count> writes_{};
  std::vector<Named> named_;  ///< ascending by row
  std::uint64_t turns_ = 0;
  bool fresh_ = false;
};

}  // namespace stbench
