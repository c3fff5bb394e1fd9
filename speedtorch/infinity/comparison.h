/// Repeatable training, and whether two results are the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/infinity/model.h"

namespace speedtorch::infinity {

/// Seeds all of LibTorch's default generators and takes only deterministic algorithms from then on (an
/// operation that has none throws); false takes what is fastest again.
void determinize(std::uint64_t seed, bool be_deterministic = true);

/// True where shapes are equal and no element differs by more than `tolerance` (NaN differs from all).
bool close(const at::Tensor& a, const at::Tensor& b, double tolerance = 1e-7);
bool close(double a, double b, double tolerance = 1e-7);

struct Difference {
  std::string name;    ///< of the parameter or buffer
  double largest = 0;  ///< of |a - b|; infinite where shape or dtype differ, or one of both is missing
};

/// Each parameter and buffer that differs by more than `tolerance`; none: the networks are the same to that.
std::vector<Difference> differences(const Model& a, const Model& b, double tolerance = 0);
/// True where all names, shapes, dtypes and values are the same, to the bit.
bool equal_networks(const Model& a, const Model& b);

}  // namespace speedtorch::infinity
