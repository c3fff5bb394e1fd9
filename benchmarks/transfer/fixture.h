/// The fixture of a cell of the transfer suite: the operands, a slice of them for each concurrent operation,
/// and the verifier of the table.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "benchmarks/transfer/operands.h"
#include "benchmarks/transfer/table_verifier.h"
#include "harness/random.h"

namespace stbench {

struct TransferFixture {
  /// @param cell any case of the cell @param indices of cell.rows_moved() rows each, shared by all cells of
  /// the same shape (a cell of a method that keeps rows has its own): each caller's are consecutive
  TransferFixture(const TransferCase& cell, std::shared_ptr<speedtorch::Memory> memory,
                  std::shared_ptr<const IndexSets> indices, Content content);
  /// With indices that set_index() changes.
  TransferFixture(const TransferCase& cell, std::shared_ptr<speedtorch::Memory> memory,
                  std::shared_ptr<IndexSets> own_indices, Content content);

  /// Replaces the indices of a set. Only for a fixture with its own indices.
  void set_index(int set, std::vector<std::int64_t> rows);
  /// Frees the results that methods delivered, outside the timed window.
  void forget_results();
  void poison_model();
  void prepare_values(Pattern pattern, int set, std::uint64_t generation);
  /// After `to`: of concurrent callers each has its own result.
  [[nodiscard]] harness::Check check_model(Pattern pattern, int set, std::uint64_t generation,
                                           Equality equality = Equality::bits) const;

  /// Changes the operands before an operation on the set: the destination, unless only the first can be used,
  /// and some rows of the table. Rows that the case reads get new values; rows that it writes are poisoned.
  /// In direction `both`, rows that are read keep their values, because another set may write them. Some rows
  /// of their destination are poisoned instead.
  void vary(const TransferCase& one, Pattern pattern, int set, bool first_destination);
  /// After an operation on the set: the positions of vary(), and others drawn now.
  [[nodiscard]] harness::Check check_spots(const TransferCase& one, Pattern pattern, int set,
                                           std::uint64_t generation, Equality equality);

  Operands operands;
  TableVerifier verifier;
  /// For concurrent operations (`--callers`, direction `both`): one each, with a consecutive slice of the
  /// batch. Empty otherwise.
  std::vector<std::unique_ptr<Operands>> slices;

 private:
  std::shared_ptr<IndexSets> own_indices_;  ///< null if they are shared
  void use_destination(int number);
  void poison_results(Operands& slice, std::int64_t count);
  [[nodiscard]] harness::Check check_model_at(const TransferCase& one, Pattern pattern, int set,
                                              std::uint64_t generation, Equality equality,
                                              const std::vector<std::int64_t>& positions);

  harness::Random random_;
  int destination_ = 0;
  std::int64_t until_next_destination_ = 0;  ///< samples
  std::vector<std::int64_t> varied_;         ///< positions of the batch
};

}  // namespace stbench
