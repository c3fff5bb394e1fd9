/// The index sets of a run, drawn once per distribution, rows and batch and shared by all such cells.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "benchmarks/tables/write_log.h"
#include "benchmarks/transfer/transfer_case.h"
#include "harness/distribution.h"

namespace stbench {

class TransferIndices {
 public:
  /// Reads and checks the distribution. Returns its name in reports; for a trace, the base name and a hash of
  /// the content.
  /// @throws UsageError for an unknown distribution and for a trace that cannot be read.
  std::string add(const std::string& distribution);

  /// @throws UsageError if a case cannot be drawn: a unique batch above the rows, a trace that names a row
  /// which the table does not have.
  void require(const TransferCase& one) const;

  /// Set number `set` of a case, also beyond the eight that sets() has.
  [[nodiscard]] std::vector<std::int64_t> draw(const TransferCase& one, std::uint64_t seed, int set) const;
  /// The eight sets of a case. Each is one draw for all callers, who get consecutive parts. So a unique or
  /// sequential draw gives no row to two callers.
  std::shared_ptr<const IndexSets> sets(const TransferCase& one, std::uint64_t seed);

 private:
  std::map<std::string, std::shared_ptr<const harness::IndexSource>> sources_;
  std::string drawn_shape_;  ///< of the latest sets; groups of one shape follow each other
  std::shared_ptr<const IndexSets> drawn_;
};

}  // namespace stbench
