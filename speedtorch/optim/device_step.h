/// Optimizer steps on a GPU's tensors, on the current stream, for SparseRows and the optimizers. Nothing
/// waits; bad indices are left out and told by check_index_errors() (speedtorch/rows/rows.h). Not yet run on
/// a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "speedtorch/kernels/steps/step_tables.h"

namespace speedtorch {

class DeviceStep {
 public:
  /// kernels::sparse_step_cuda() on the tables' device. `index` and `grad` are contiguous tensors there.
  /// @throws CudaError; ShapeError for 2^31 indices or more; PlacementError in a build without CUDA
  void rows(const kernels::AnyUpdate<float>& update, const kernels::StepTables<float>& tables,
            const at::Tensor& index, const at::Tensor& grad, std::int64_t step);
  void rows(const kernels::AnyUpdate<double>& update, const kernels::StepTables<double>& tables,
            const at::Tensor& index, const at::Tensor& grad, std::int64_t step);

  /// kernels::update_all_cuda() on the device of `grad`. @throws CudaError; PlacementError likewise
  static void all(const kernels::AnyUpdate<float>& update, const kernels::StepTables<float>& tables,
                  const at::Tensor& grad, std::int64_t step);
  static void all(const kernels::AnyUpdate<double>& update, const kernels::StepTables<double>& tables,
                  const at::Tensor& grad, std::int64_t step);

 private:
  at::Tensor workspace_;  ///< for the largest index so far
};

}  // namespace speedtorch
