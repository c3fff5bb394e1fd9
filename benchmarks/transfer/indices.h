/// The index sets of a run: drawn once a shape, shared by all cells that differ in nothing they depend on.
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
  /// Reads and checks the distribution. Returns its name in reports: a trace's is its base name and content
  /// hash.
  /// @throws UsageError for an unknown distribution and for a trace that cannot be read.
  std::string add(const std::string& distribution);

  /// @throws UsageError where a case whose `distribution` add() returned cannot be drawn: a unique batch
  /// above the rows, a trace that names a row which the table does not have.
  void require(const TransferCase& one) const;

  /// The eight sets of a case, each for all of its callers: one draw, of which every caller has consecutive
  /// rows. So those of a unique or sequential draw are nobody else's.
  std::shared_ptr<const IndexSets> sets(const TransferCase& one, std::uint64_t seed);

 private:
  std::map<std::string, std::shared_ptr<const harness::IndexSource>> sources_;
  std::string drawn_shape_;  ///< of the latest sets: the plan goes through the shapes one by one
  std::shared_ptr<const IndexSets> drawn_;
};

}  // namespace stbench
