/// Which tables fit where, in bytes, before anything is allocated.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/memory/table_options.h"

namespace speedtorch {

/// A table that is to be: its parameter and its optimizer's states, each of rows × dim elements.
struct PlannedTable {
  std::string name;  ///< its own: no other table of the plan has it
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  at::ScalarType dtype = at::kFloat;
  int states =
      0;  ///< tables of the optimizer: Adam has 2, SGD none (state_names(), speedtorch/optim/sparse_rows.h)
  /// The placements that will do, the best first. A GPU's own memory before pinned memory before a file.
  std::vector<Placement> wanted = {Placement::device, Placement::pinned};
};

/// Bytes that may be taken. `libtorch`, `pageable` and `hugepage` come out of `host`, `mapped` out of `file`.
/// Pinned memory is the host's as well: it comes out of `pinned` and of `host`.
struct MemoryBudgets {
  std::int64_t device = 0;
  std::int64_t pinned = 0;
  std::int64_t host = 0;
  std::int64_t file = 0;
};

/// What this machine has free now: the GPU's memory (0 without one), the host's below the tightest limit, and
/// the disk of `folder`. No system bounds pinned memory by itself: it may be all of the host's where there is
/// a GPU.
MemoryBudgets free_budgets(at::Device device, const std::string& folder);

/// One table to allocate: a parameter, or one of its states.
struct PlannedMemory {
  std::string name;  ///< the table's, and of a state " state 1" and so on
  Placement placement = Placement::hugepage;
  std::int64_t bytes = 0;
};

/// A plan does not go into its budgets. what() has a line for each table that found no place.
class PlanError : public MemoryError {
 public:
  PlanError(const std::string& what, std::vector<PlannedMemory> left)
      : MemoryError(what), left_(std::move(left)) {}
  /// What found no place, with the first placement that it wanted.
  [[nodiscard]] const std::vector<PlannedMemory>& left() const { return left_; }

 private:
  std::vector<PlannedMemory> left_;
};

struct MemoryPlan {
  std::vector<PlannedMemory> tables;  ///< parameters first, in the order given, then their states
  MemoryBudgets used;
  MemoryBudgets left;

  /// A line a table and one for the sums, in bytes.
  [[nodiscard]] std::string text() const;
  /// Where the table of that name goes. @throws NameError where none has it, or more than one
  [[nodiscard]] Placement placement_of(const std::string& name) const;
};

/// Gives each table the first of its placements that has the bytes left: first all parameters in the given
/// order, which every step reads and writes once, then the states. Nothing is allocated, and no machine
/// asked.
/// @throws PlanError where some fit nowhere; NameError for two of one name, of which one may be a state's;
/// ShapeError for a table of negative size, of more than 2^63 - 1
/// bytes, or without a placement
MemoryPlan plan_memory(const std::vector<PlannedTable>& tables, const MemoryBudgets& budgets);

}  // namespace speedtorch
