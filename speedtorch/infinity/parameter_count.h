/// How many numbers a model learns, where they are, and what they cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/infinity/model.h"

namespace speedtorch::infinity {

struct LayerCount {
  std::string layer;           ///< "encoder.linear"; empty: parameters of the model itself
  std::int64_t elements = 0;   ///< of its parameters, those of a tied one only where it comes first
  std::int64_t trainable = 0;  ///< of these, what requires a gradient
  std::int64_t tied = 0;       ///< elements that another layer, above this one, has already
  std::int64_t bytes = 0;      ///< of `elements`
  double seconds = 0;  ///< of the operations that took them in one forward pass; 0 where none was made

  [[nodiscard]] std::int64_t frozen() const { return elements - trainable; }
};

struct ParameterCount {
  std::vector<LayerCount> layers;  ///< in the model's order
  LayerCount all;                  ///< their sum
  std::int64_t buffer_bytes = 0;
};

ParameterCount count_parameters(const Model& model);

/// The same with times: of `repeats` forward passes without gradients, the least.
ParameterCount count_parameters(const Model& model, const Tensors& inputs, int repeats = 3);

/// A table, a line a layer and one for all.
std::string to_string(const ParameterCount& count);

}  // namespace speedtorch::infinity
