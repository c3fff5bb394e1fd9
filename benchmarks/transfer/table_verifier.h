/// The checks of one table of a transfer cell: what each row should hold, what does not hold it, and its
/// repair. All of it is outside the timed window.
///
/// Each write of a set has a value generation: another seed of the fill. Generation 0 is the table's own
/// content, so that a correct scatter of generation 0 leaves the table as it was.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "benchmarks/tables/row_check.h"
#include "benchmarks/tables/write_log.h"
#include "benchmarks/transfer/operands.h"
#include "harness/benchmark_case.h"

namespace stbench {

class TableVerifier {
 public:
  /// @param operands outlive the verifier @param indices that they were made of
  TableVerifier(Operands& operands, const RowShape& shape, std::shared_ptr<const IndexSets> indices,
                Content content);

  /// Fills the values for `from` on this set unless they hold this generation already, and logs the write.
  void prepare_values(Pattern pattern, int set, std::uint64_t generation);
  /// Overwrites the rows of the set that these operands, all or a slice, write.
  void poison_rows(const Operands& slice, Pattern pattern, int set);

  /// Overwrites the rows of the set at these positions of the batch.
  void poison_positions(Pattern pattern, int set, std::span<const std::int64_t> positions);
  /// Gives the rows of the set at these positions new values, and those that the call before had changed
  /// their fill again. For directions that only read.
  void change_rows(Pattern pattern, int set, std::span<const std::int64_t> positions);

  /// After `to`: the result of these operands, all or a slice, holds the table's rows of a generation.
  [[nodiscard]] harness::Check check_model(const Operands& slice, Pattern pattern, int set,
                                           std::uint64_t generation,
                                           Equality equality = Equality::bits) const;
  /// The same of some positions of the slice, which are counted from its first.
  [[nodiscard]] harness::Check check_model_at(const Operands& slice, Pattern pattern, int set,
                                              std::uint64_t generation, Equality equality,
                                              std::span<const std::int64_t> positions) const;
  /// After `from`: the rows of the set at these positions of the batch hold the generation's values. If one
  /// differs, all rows of the set are repaired.
  harness::Check check_named_at(Pattern pattern, int set, std::uint64_t generation,
                                std::span<const std::int64_t> positions);
  /// After `from`: the rows of the set hold the generation's values. Rows that differ are repaired.
  harness::Check check_named(Pattern pattern, int set, std::uint64_t generation);
  /// The neighbours of the set's rows and a sample of the others hold what was last written to them. Rows
  /// that differ are repaired, so that no other case is blamed for them.
  harness::Check check_others(Pattern pattern, int set);
  /// Damage that the case which found it did not do. The last check reports it, unless another case is found
  /// to have done it.
  void remember(const harness::Check& damage) { merge(unexplained_, damage); }
  /// Writes what the rows of the set should hold after `from`: for a case that broke off.
  void repair(Pattern pattern, int set);
  /// The last check: no damage is unexplained, and every row that `from` wrote holds what was last written to
  /// it; if `whole` or not `trusted`, every row of the table does. Afterwards the table holds its fill again.
  /// @param trusted false if a case of the cell is known to have failed: rows that were written to are then
  /// not judged
  harness::Check close(bool trusted, bool whole);

 private:
  [[nodiscard]] std::span<const std::int64_t> rows_of(const Operands& slice, Pattern pattern, int set) const;
  [[nodiscard]] const std::vector<std::int64_t>& rows_of(Pattern pattern, int set) const;
  [[nodiscard]] Content content_of(std::uint64_t generation) const;
  [[nodiscard]] ContentOf read_contents(std::uint64_t generation) const;
  harness::Check restore_changed();
  [[nodiscard]] std::vector<std::int64_t> others_than(std::vector<std::int64_t> rows) const;
  [[nodiscard]] ContentOf last_written();
  harness::Check check_whole(bool trusted);
  void repair_all();

  /// The content of a values tensor of the operands.
  struct Held {
    std::uint64_t generation = 0;
    int set = -1;
    Pattern pattern = Pattern::indexed;
    bool operator==(const Held&) const = default;
  };

  Operands& operands_;
  RowShape shape_;
  Content content_;
  RowBytes bytes_;
  std::shared_ptr<const IndexSets> indexed_, contiguous_;
  WriteLog log_;
  std::vector<Held> held_;             ///< by Operands::values_slot()
  std::vector<std::int64_t> changed_;  ///< rows that change_rows() changed last, ascending
  std::uint64_t changes_ = 0;
  harness::Check unexplained_;
};

}  // namespace stbench
