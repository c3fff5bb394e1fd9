/// Plans which tables fit where, in bytes, before anything is allocated.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/memory/table_options.h"

namespace speedtorch {

/// A table to plan: a parameter and its optimizer's states, each of rows × dim elements.
struct PlannedTable {
  std::string name;  ///< unique in the plan
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  at::ScalarType dtype = at::kFloat;
  int states =
      0;  ///< the optimizer's tables: Adam has 2, SGD none (state_names(), speedtorch/optim/sparse_rows.h)
  /// The acceptable placements, the best first: usually the GPU's memory before pinned memory before a file.
  std::vector<Placement> wanted = {Placement::device, Placement::pinned};
};

/// Bytes that the plan may use. `libtorch`, `pageable` and `hugepage` draw on `host`, `mapped` draws on
/// `file`. Pinned memory is host memory too: it draws on both `pinned` and `host`.
struct MemoryBudgets {
  std::int64_t device = 0;
  std::int64_t pinned = 0;
  std::int64_t host = 0;
  std::int64_t file = 0;
};

/// The free bytes of this machine now: the GPU's memory (0 without one), the host's memory below the tightest
/// limit, and the disk of `folder`. Pinned memory has no limit of its own: with a GPU it may take all of the
/// host's.
MemoryBudgets free_budgets(at::Device device, const std::string& folder);

/// One table to allocate: a parameter, or one of its states.
struct PlannedMemory {
  std::string name;  ///< the table's name, for a state followed by " state 1" and so on
  Placement placement = Placement::hugepage;
  std::int64_t bytes = 0;
};

/// A plan exceeds its budgets. what() has a line per table that did not fit.
class PlanError : public MemoryError {
 public:
  PlanError(const std::string& what, std::vector<PlannedMemory> left)
      : MemoryError(what), left_(std::move(left)) {}
  /// The tables that did not fit, each with its first wanted placement.
  [[nodiscard]] const std::vector<PlannedMemory>& left() const { return left_; }

 private:
  std::vector<PlannedMemory> left_;
};

struct MemoryPlan {
  std::vector<PlannedMemory> tables;  ///< parameters first, in the given order, then their states
  MemoryBudgets used;
  MemoryBudgets left;

  /// A line per table and one with the sums, in bytes.
  [[nodiscard]] std::string text() const;
  /// The placement of the table of that name. @throws NameError if no table or more than one has it
  [[nodiscard]] Placement placement_of(const std::string& name) const;
};

/// Gives each table the first of its placements that still has enough bytes: first the parameters in the
/// given order, which every step reads and writes, then the states. Allocates nothing and does not query the
/// machine.
/// @throws PlanError if some tables do not fit; NameError for two tables or states of one name; ShapeError
/// for a negative size, more than 2^63 - 1 bytes, or no placement
MemoryPlan plan_memory(const std::vector<PlannedTable>& tables, const MemoryBudgets& budgets);

}  // namespace speedtorch
