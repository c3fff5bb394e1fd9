/// The states that an optimizer keeps for each element of a parameter, under torch's names.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "speedtorch/kernels/steps/update_options.h"

namespace speedtorch {

/// A state under torch's name ("exp_avg").
struct State {
  std::string name;
  at::Tensor table;
};

/// How steps are counted. Bias corrections and decays of some optimizers depend on the count.
enum class StepCount {
  shared,  ///< one count for all rows, as in torch
  by_row,  ///< one int64 count per row: rare rows begin like all others
};

/// The name of a state and its initial value.
struct StateBegin {
  std::string name;
  double value;
};

/// The states of an optimizer with these options. States that depend on an option ("momentum_buffer") are
/// included only if it is set. @throws OptionError
std::vector<StateBegin> state_begins(const UpdateOptions& options);
std::vector<std::string> state_names(const UpdateOptions& options);

}  // namespace speedtorch
