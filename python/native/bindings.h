/// The parts of the extension module speedtorch._native, one per file.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <vector>

#include "speedtorch/kernels/steps/update_options.h"
#include "speedtorch/placement.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/tables/table.h"

namespace speedtorch::python {

void bind_errors(pybind11::module_& module);
void bind_files(pybind11::module_& module);
void bind_rows(pybind11::module_& module);
void bind_tables(pybind11::module_& module);
void bind_shared(pybind11::module_& module);
void bind_steps(pybind11::module_& module);
void bind_contiguous(pybind11::module_& module);
void bind_sharded(pybind11::module_& module);

/// The optimizers' names: torch's.
std::vector<std::string> optimizer_names();
/// The names of an optimizer's options, in the order that options_of() takes their values.
/// @throws OptimizerError for an unknown name
std::vector<std::string> option_names(std::string_view optimizer);
/// An optimizer's options from their values; a bool is 0 or 1. @throws OptimizerError for an unknown name;
/// OptionError for another number of values, or for values that check_options() refuses
UpdateOptions options_of(std::string_view optimizer, const std::vector<double>& values);

/// @throws OptionError for an unknown name
Placement placement_of(const std::string& name);
/// @throws OptionError for an unknown placement
TableOptions table_options(const std::string& placement, at::Device device, std::string file, bool shared);

/// The names of Duplicates, in the order of the enumeration.
std::vector<std::string> duplicate_policies();
/// @throws OptionError for an unknown name
Duplicates duplicates_of(std::string_view name);

}  // namespace speedtorch::python
