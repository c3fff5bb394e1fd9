/// The table and the batches of one cell of the sharded suite, as one rank has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/tables/row_shape.h"
#include "harness/random.h"
#include "reports/record.h"
#include "speedtorch/memory/table_options.h"
#include "speedtorch/sharded/sharded_table.h"
#include "speedtorch/shared/shared_table.h"

namespace stbench {

/// The cell's data that all ranks must know to make it.
struct RankCellTerms {
  reports::Identity id;      ///< of any case of the cell
  std::string distribution;  ///< as the user gave it: a report has the base name of a file
  std::uint64_t seed = 0;
  std::string shared_name;  ///< of the table of engine `shared`
  std::chrono::milliseconds timeout{};
};

class RankCell {
 public:
  /// Makes and fills the rank's part of the table, and draws its batches. Called by all ranks.
  /// @throws UsageError for a distribution that cannot be drawn; what the tables throw
  RankCell(RankCellTerms terms, const speedtorch::RankGroup& group);

  [[nodiscard]] const reports::Identity& id() const { return terms_.id; }
  [[nodiscard]] std::uint64_t seed() const { return terms_.seed; }
  [[nodiscard]] const RowShape& shape() const { return shape_; }
  [[nodiscard]] const speedtorch::RankGroup& group() const { return group_; }
  [[nodiscard]] const speedtorch::RowOwners& owners() const { return owners_; }
  [[nodiscard]] std::int64_t batch() const { return terms_.id.batch; }
  [[nodiscard]] int ranks() const { return group_.size(); }
  [[nodiscard]] int rank() const { return group_.rank(); }
  /// For which a rank waits for others.
  [[nodiscard]] std::chrono::milliseconds timeout() const { return terms_.timeout; }

  /// The rows that this rank asks for.
  [[nodiscard]] std::span<const std::int64_t> rows(int set) const {
    return sets_[static_cast<std::size_t>(set)];
  }
  /// The same as int64 [batch].
  [[nodiscard]] at::Tensor index(int set) const;

  /// The table of engines `gloo` and `node`.
  [[nodiscard]] speedtorch::ShardedTable& sharded() { return *sharded_; }
  /// The table of engine `shared`.
  [[nodiscard]] const speedtorch::Table& shared() const { return shared_->table(); }
  /// A new table with these rows of the whole one.
  [[nodiscard]] speedtorch::Table filled(std::span<const std::int64_t> rows, bool shared) const;

 private:
  [[nodiscard]] std::int64_t placed(std::int64_t row, std::optional<double> remote,
                                    harness::Random& random) const;
  void draw_sets();

  RankCellTerms terms_;
  speedtorch::RankGroup group_;
  RowShape shape_;
  speedtorch::RowOwners owners_;
  std::vector<std::vector<std::int64_t>> sets_;
  std::optional<speedtorch::ShardedTable> sharded_;
  std::optional<speedtorch::SharedTable> shared_;
};

/// The numbers 0 to n - 1.
std::vector<std::int64_t> numbers_below(std::int64_t n);

/// The share of remote rows that an axis value asks for; nothing for `drawn`, which leaves it to the
/// distribution. @throws UsageError unless it is `drawn` or 0 to 1
std::optional<double> remote_share(const std::string& value);

}  // namespace stbench
