/// The CUDA toolkit's functions that copy many rows, for cells whose rows move on the GPU. Not yet run on a
/// GPU.
#pragma once

#include <memory>

#include "benchmarks/transfer/operands.h"

namespace stbench {

/// A gather moves table rows into the model tensor, a scatter values into table rows.
enum class Way { gather, scatter };

/// cub::DeviceMemcpy::Batched, one buffer per row.
class CubRows {
 public:
  /// Allocates its scratch memory. @throws PlacementError without CUDA
  explicit CubRows(Operands& operands);
  void move(Way way, Operands& operands, int set);

 private:
  at::Tensor scratch_;
};

/// cudaMemcpyBatchAsync, one copy per row, with pointers made from the index on the host.
class MemcpyBatchRows {
 public:
  /// Creates a stream, because the call refuses the default stream. @throws PlacementError without CUDA
  explicit MemcpyBatchRows(Operands& operands);
  void move(Way way, Operands& operands, int set);

 private:
  struct Batch;
  std::shared_ptr<Batch> batch_;
};

/// Why this build or driver has no cudaMemcpyBatchAsync, with the cure; empty if it has.
std::string memcpy_batch_skip_reason();

}  // namespace stbench
