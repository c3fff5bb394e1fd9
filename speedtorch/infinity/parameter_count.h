/// Counts a model's parameters per layer, with their bytes and forward times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/infinity/model.h"

namespace speedtorch::infinity {

struct LayerCount {
  std::string layer;           ///< "encoder.linear"; empty: parameters of the model itself
  std::int64_t elements = 0;   ///< of its parameters; a tied one counts in its first layer only
  std::int64_t trainable = 0;  ///< the elements that require a gradient
  std::int64_t tied = 0;       ///< elements that an earlier layer has already
  std::int64_t bytes = 0;      ///< of `elements`
  double seconds = 0;          ///< of the operations on them in one forward pass; 0 if not timed

  [[nodiscard]] std::int64_t frozen() const { return elements - trainable; }
};

struct ParameterCount {
  std::vector<LayerCount> layers;  ///< in the model's order
  LayerCount all;                  ///< their sum
  std::int64_t buffer_bytes = 0;
};

ParameterCount count_parameters(const Model& model);

/// The same, with times: the minimum over `repeats` forward passes without gradients.
ParameterCount count_parameters(const Model& model, const Tensors& inputs, int repeats = 3);

/// A table with one line per layer and one for the sum.
std::string to_string(const ParameterCount& count);

}  // namespace speedtorch::infinity
