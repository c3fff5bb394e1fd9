/// Makes training repeatable, and compares results.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/infinity/model.h"

namespace speedtorch::infinity {

/// Seeds all default generators of LibTorch and restricts it to deterministic algorithms; an operation that
/// has none throws. `be_deterministic = false` permits the fastest algorithms again.
void determinize(std::uint64_t seed, bool be_deterministic = true);

/// True if the shapes are equal and no element differs by more than `tolerance`. NaN differs from everything.
bool close(const at::Tensor& a, const at::Tensor& b, double tolerance = 1e-7);
bool close(double a, double b, double tolerance = 1e-7);

struct Difference {
  std::string name;    ///< of the parameter or buffer, as "parameter 0.weight"
  double largest = 0;  ///< of |a - b|; infinite if shape or dtype differ, or if one is missing
};

/// Returns each parameter and buffer that differs by more than `tolerance`.
std::vector<Difference> differences(const Model& a, const Model& b, double tolerance = 0);
/// True if all names, shapes, dtypes and values are equal, bit for bit.
bool equal_networks(const Model& a, const Model& b);

}  // namespace speedtorch::infinity
