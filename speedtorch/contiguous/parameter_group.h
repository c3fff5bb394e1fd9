/// The parameters given to ContiguousParameters, and the error for those that it cannot take.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/kernels/steps/update_options.h"

namespace speedtorch {

/// Parameters with the same options. `names` are for messages: none, or one per parameter. `options` replace
/// the optimizer's defaults in ContiguousOptimizer; ContiguousParameters ignores them.
struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  std::vector<std::string> names = {};
  std::optional<UpdateOptions> options = {};
};

/// Returns the group of a module: `named(module->named_parameters())`.
template <class Items>
ParameterGroup named(const Items& parameters, std::optional<UpdateOptions> options = {}) {
  ParameterGroup group;
  for (const auto& item : parameters) {
    group.parameters.push_back(item.value());
    group.names.push_back(item.key());
  }
  group.options = std::move(options);
  return group;
}

/// A parameter or gradient no longer lies in its buffer, or the parameters cannot be laid out. what() names
/// the parameter, the cause and the cure.
struct BufferError : Error {
  using Error::Error;
};

}  // namespace speedtorch
