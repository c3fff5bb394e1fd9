/// The fixture of a cell of the transfer suite: the operands, a slice of them for each concurrent operation,
/// and the verifier of the table.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "benchmarks/transfer/operands.h"
#include "benchmarks/transfer/table_verifier.h"

namespace stbench {

struct TransferFixture {
  /// @param cell any case of the cell @param indices of cell.rows_moved() rows each, shared by all cells of
  /// the same shape: each caller's are consecutive
  TransferFixture(const TransferCase& cell, std::shared_ptr<speedtorch::Memory> memory,
                  std::shared_ptr<const IndexSets> indices, std::uint64_t seed);

  /// Frees the results that methods delivered, outside the timed window.
  void forget_results();
  void poison_model();
  void prepare_values(Pattern pattern, int set, std::uint64_t generation);
  /// After `to`: of concurrent callers each has its own result.
  [[nodiscard]] harness::Check check_model(Pattern pattern, int set, std::uint64_t generation,
                                           Equality equality = Equality::bits) const;

  Operands operands;
  TableVerifier verifier;
  /// For concurrent operations (`--callers`, direction `both`): one each, with a consecutive slice of the
  /// batch. Empty otherwise.
  std::vector<std::unique_ptr<Operands>> slices;
};

}  // namespace stbench
