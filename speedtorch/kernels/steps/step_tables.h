/// The operands of a step of rows. C++17, so that CUDA sources can include it.
#pragma once

#include <cstdint>

#include "speedtorch/kernels/steps/updates.h"

namespace speedtorch::kernels {

/// Contiguous, non-overlapping rows of the parameter and of each of its states.
template <class T>
struct StepTables {
  T* param;
  T* states[kMostStates];  ///< as many as the update has
  std::int64_t rows;
  std::int64_t columns;  ///< elements of a row
};

}  // namespace speedtorch::kernels
