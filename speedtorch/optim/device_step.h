/// Optimizer steps on GPU tensors, on the current stream, for SparseRows and the optimizers. Steps do not
/// wait. Bad indices are skipped, and check_index_errors() (speedtorch/rows/rows.h) reports them. Not yet run
/// on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "speedtorch/kernels/steps/step_tables.h"

namespace speedtorch {

/// T is float or double.
template <class T>
class DeviceStep {
 public:
  /// Calls kernels::sparse_step_cuda() on the tables' device. `index` and `grad` are contiguous tensors
  /// there.
  /// @throws CudaError; ShapeError for 2^31 indices or more; PlacementError in a build without CUDA
  void rows(const kernels::AnyUpdate<T>& update, const kernels::StepTables<T>& tables,
            const at::Tensor& index, const at::Tensor& grad, std::int64_t step);

  /// Calls kernels::update_all_cuda() on the device of `grad`. @throws CudaError; PlacementError in a build
  /// without CUDA
  static void all(const kernels::AnyUpdate<T>& update, const kernels::StepTables<T>& tables,
                  const at::Tensor& grad, std::int64_t step);

 private:
  at::Tensor workspace_;  ///< large enough for the largest index so far
};

}  // namespace speedtorch
