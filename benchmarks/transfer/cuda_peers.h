/// The CUDA toolkit's own ways to copy many rows, for cells whose rows move on the GPU. Not yet
/// run on a GPU.
#pragma once

#include <memory>

#include "benchmarks/transfer/operands.h"

namespace stbench {

/// cub::DeviceMemcpy::Batched, one buffer a row.
class CubRows {
 public:
  /// Allocates its scratch memory. @throws PlacementError without CUDA
  explicit CubRows(Operands& operands);
  void gather(Operands& operands, int set);
  void scatter(Operands& operands, int set);

 private:
  at::Tensor scratch_;
};

/// cudaMemcpyBatchAsync, one copy a row, with pointers made from the host's index.
class MemcpyBatchRows {
 public:
  /// Makes its stream, since the call refuses the default one. @throws PlacementError without CUDA
  explicit MemcpyBatchRows(Operands& operands);
  void gather(Operands& operands, int set);
  void scatter(Operands& operands, int set);

 private:
  struct Batch;
  std::shared_ptr<Batch> batch_;
};

/// Why this build or driver has no cudaMemcpyBatchAsync, with the cure; empty where it has.
std::string memcpy_batch_skip_reason();

}  // namespace stbench
