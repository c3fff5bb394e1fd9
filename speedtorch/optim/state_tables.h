/// The tables that an optimizer's states live in.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/optim/state.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {

/// A state under torch's name of it; that of the rows' counts is "row_steps".
struct StateTable {
  std::string name;
  Table table;
};

constexpr const char* row_steps_name = "row_steps";

/// The file of a state in a folder.
std::string state_file(const std::string& folder, const std::string& name);

/// New tables of that shape and dtype, in the order of state_begins() and set as it says, and behind them,
/// with counts by row, one of int64 zeros, a number for each row. In a `mapped` home that has a name, that is
/// a new folder of one `.npy` file for each.
/// @throws FileError where the folder is there; what Table throws. Nothing is left then, in memory or on
/// disk.
std::vector<StateTable> new_state_tables(at::IntArrayRef sizes, at::ScalarType dtype,
                                         const UpdateOptions& options, StepCount count,
                                         const TableOptions& home);

}  // namespace speedtorch
