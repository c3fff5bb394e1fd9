/// Creates the tables of an optimizer's states.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "speedtorch/optim/state.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {

/// A state under torch's name. The counts of the rows are named "row_steps".
struct StateTable {
  std::string name;
  Table table;
};

constexpr const char* row_steps_name = "row_steps";

/// Returns the path of a state's file in a folder.
std::string state_file(const std::string& folder, const std::string& name);

/// Returns new tables of this shape and dtype with their initial values, in the order of state_begins(). With
/// StepCount::by_row, a table of int64 zeros [rows] follows. If the tables are `mapped` and named, creates a
/// folder with one `.npy` file per table. If it throws, nothing is left in memory or on disk. @throws
/// FileError if the folder exists; what Table throws
std::vector<StateTable> new_state_tables(at::IntArrayRef sizes, at::ScalarType dtype,
                                         const UpdateOptions& options, StepCount count,
                                         const TableOptions& home);

}  // namespace speedtorch
