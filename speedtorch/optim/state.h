/// The states that an optimizer keeps for each element of a parameter, by torch's names.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "speedtorch/kernels/steps/update_options.h"

namespace speedtorch {

/// A state table under torch's name of it ("exp_avg").
struct State {
  std::string name;
  at::Tensor table;
};

/// How the steps are counted on which the bias corrections and decays of some optimizers depend.
enum class StepCount {
  shared,  ///< one count, as torch has
  by_row,  ///< each row its own, int64: rare rows begin like any other
};

/// The name of a state and the value that each of its elements begins with.
struct StateBegin {
  std::string name;
  double value;
};

/// Of an optimizer of these options; those that depend on an option ("momentum_buffer") only with it.
/// @throws OptionError
std::vector<StateBegin> state_begins(const UpdateOptions& options);
std::vector<std::string> state_names(const UpdateOptions& options);

}  // namespace speedtorch
